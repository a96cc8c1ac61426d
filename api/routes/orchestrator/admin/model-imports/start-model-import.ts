import * as modelImportRepository from '../../../../../db/repositories/models/imports.ts'
import * as accountRepository from '../../../../../db/repositories/platform/accounts.ts'
import { newId } from '../../../../../domain/ids.ts'
import { importKey } from '../../../../../domain/object-keys.ts'
import { ModelImportStarted, StartModelImport } from '../../../../../schemas/model-import.ts'
import { audit } from '../../../../audit.ts'
import { route } from '../../../../http/route.ts'
import { accountNotFound } from '../accounts/account.ts'
import { servedBy } from './served-by.ts'

const URL_TTL_S = 6 * 3_600

const OCTETS = 'application/octet-stream'

export const startModelImport = route({
  operationId: 'startModelImport',
  summary: 'Get URLs to upload the files of a model',
  method: 'POST',
  path: '/admin/model-imports',
  auth: 'operations-key',
  body: StartModelImport,
  success: { status: 201, schema: ModelImportStarted },
  errors: ['not_found'],

  async handler({ body: { account_id, paths, task_type, runtime_profile } }, { db, objects, catalog }) {
    if (!(await accountRepository.findAccount(db, account_id))) throw accountNotFound()
    if (task_type !== undefined && runtime_profile !== undefined)
      servedBy(catalog, { task_type, runtime_profile })
    const version_id = newId()
    const sign = async (path: string) => {
      const key = importKey(version_id, path)
      const { url } = await objects.signPut(key, { expiresInS: URL_TTL_S, contentType: OCTETS })
      return { path, url, content_type: OCTETS }
    }
    // Create the row first, so that retention finds uploads that are never completed.
    await db.transaction().execute(async (trx) => {
      await modelImportRepository.insertModelImport(trx, { id: version_id, account_id, paths })
      const subject = { kind: 'model_version', id: version_id }
      const after = { files: paths.length }
      await audit(trx, { action: 'startModelImport', subject, accountId: account_id, after })
    })
    return { version_id, uploads: await Promise.all(paths.map(sign)) }
  },
})
