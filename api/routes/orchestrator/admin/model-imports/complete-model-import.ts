import type { Transaction } from 'kysely'
import Type from 'typebox'
import * as modelImportRepository from '../../../../../db/repositories/models/imports.ts'
import * as accountRepository from '../../../../../db/repositories/platform/accounts.ts'
import type { Database } from '../../../../../db/tables.ts'
import type { EndpointRow } from '../../../../../db/tables/models.ts'
import { ApiError, invalid } from '../../../../../domain/errors.ts'
import { isHubName } from '../../../../../domain/hub/names.ts'
import { estimateMb } from '../../../../../domain/models/memory.ts'
import { importKey } from '../../../../../domain/object-keys.ts'
import { importedListing, modelCategoryOf } from '../../../../../domain/task-types/index.ts'
import { modelKeyOf } from '../../../../../domain/training/training-run.ts'
import type { ObjectStore } from '../../../../../platform/object-store/store.ts'
import { Uuid } from '../../../../../schemas/common.ts'
import { CompleteModelImport, ImportedModel } from '../../../../../schemas/model-import.ts'
import type { RuntimeProfile } from '../../../../../schemas/nodes/runtime-profile.ts'
import { audit } from '../../../../audit.ts'
import { route } from '../../../../http/route.ts'
import { publishVersion } from '../../../../registry/publish.ts'
import { accountNotFound } from '../accounts/account.ts'
import { servedBy } from './served-by.ts'

export const completeModelImport = route({
  operationId: 'completeModelImport',
  summary: 'Create a version from the uploaded files of a model, and serve it as an endpoint',
  method: 'POST',
  path: '/admin/model-imports/{version_id}:complete',
  auth: 'operations-key',
  params: Type.Object({ version_id: Uuid }),
  body: CompleteModelImport,
  success: { status: 201, schema: ImportedModel },
  errors: ['not_found', 'conflict'],

  async handler({ params: { version_id }, body }, { db, objects, catalog, now }) {
    if (!(await accountRepository.findAccount(db, body.account_id))) throw accountNotFound()
    if (isHubName(body.name)) {
      throw invalid(
        ['body', 'name'],
        'names that begin with hf- are reserved for imports from the hub',
        'endpoint_name',
      )
    }
    const profile = servedBy(catalog, body)
    await Promise.all(body.files.map((file) => checkFile(objects, version_id, file)))
    const endpoint = await db
      .transaction()
      .execute((trx) => create(trx, { versionId: version_id, body, profile, now: now() }))
    return {
      endpoint_id: endpoint.id,
      version_id,
      model_key: endpoint.model_key,
      name: endpoint.name,
      runtime_profile: endpoint.runtime_profile,
    }
  },
})

/** The node verifies the digest of the bytes when it downloads them. */
async function checkFile(
  objects: ObjectStore,
  versionId: string,
  { path, size_bytes }: CompleteModelImport['files'][number],
): Promise<void> {
  const found = await objects.head(importKey(versionId, path))
  if (!found) throw new ApiError('conflict', `${path} has not been uploaded`)
  if (found.sizeBytes === size_bytes) return
  throw new ApiError('conflict', `${path} has ${found.sizeBytes} bytes here, not ${size_bytes}`)
}

interface Creation {
  versionId: string
  body: CompleteModelImport
  profile: RuntimeProfile
  now: Date
}

async function create(
  trx: Transaction<Database>,
  { versionId, body, profile, now }: Creation,
): Promise<EndpointRow> {
  const { account_id, name, task_type, files } = body
  if (!(await modelImportRepository.takeModelImport(trx, { id: versionId, account_id }))) {
    throw new ApiError(
      'conflict',
      'this import is already complete, or its files were removed after 24 hours',
    )
  }
  const bytes = files.reduce((sum, { size_bytes }) => sum + size_bytes, 0)
  const row = await publishVersion(trx, {
    version: {
      id: versionId,
      account_id,
      name,
      model_key: modelKeyOf(name, versionId),
      model_config_id: name,
      runtime_profile: profile.profile_id,
      lifecycle_status: 'ready',
      memory_mb: estimateMb(profile, bytes),
      created_at: now,
    },
    files: files.map((file) => ({ ...file, object_key: importKey(versionId, file.path) })),
    listing: importedListing(task_type),
    names: [name],
    endpoint: {
      account_id,
      display_name: name,
      description: 'Imported by the operator.',
      visibility: body.visibility ?? 'account',
      review_status: 'active',
      source: 'catalog',
      task_type,
      base_model: name,
      model_category: modelCategoryOf(task_type),
      tags: [],
      created_at: now,
      updated_at: now,
    },
  })
  if (row)
    await audit(trx, {
      action: 'completeModelImport',
      subject: { kind: 'model_version', id: versionId },
      accountId: account_id,
      after: { name, runtime_profile: profile.profile_id, endpoint_id: row.id },
    })
  if (!row) throw new ApiError('conflict', `the name ${name} is not available; choose another one`)
  return row
}
