import type { Transaction } from 'kysely'
import * as hubModelRepository from '../../../../db/repositories/models/hub-models.ts'
import type { HubImportRow } from '../../../../db/repositories/models/hub-models.ts'
import type { Database } from '../../../../db/tables.ts'
import { HUB_TASKS, type HubTask } from '../../../../domain/hub/compatibility.ts'
import { hubKey } from '../../../../domain/hub/files.ts'
import { distinctHubName, hubModelName } from '../../../../domain/hub/names.ts'
import { newId } from '../../../../domain/ids.ts'
import { importedListing } from '../../../../domain/task-types/index.ts'
import { modelKeyOf } from '../../../../domain/training/training-run.ts'
import { publishVersion } from '../../../registry/publish.ts'
import type { RepoAssessment } from './look-at-repo.ts'

/** A repository that may be imported, with the digest of every file that nodes will download. */
export interface HubImport extends RepoAssessment {
  accountId: string
  task: HubTask
  files: readonly { path: string; size_bytes: number; sha256: string }[]
  now: Date
}

/** Creates all rows of an import in the request's transaction, or returns an earlier import of the same account. */
export async function createHubModel(trx: Transaction<Database>, order: HubImport): Promise<HubImportRow> {
  const { accountId, info } = order
  await hubModelRepository.lockHubRepo(trx, accountId, info.repoId)
  const known = await hubModelRepository.findHubModelByRepo(trx, accountId, info.repoId)
  if (!known) await insertAll(trx, order)
  const row = await hubModelRepository.findHubModelByRepo(trx, accountId, info.repoId)
  if (!row) throw new Error('an import was not found in the transaction that created it')
  return row
}

async function insertAll(trx: Transaction<Database>, order: HubImport): Promise<void> {
  const { accountId, info, verdict, task, files, now } = order
  const [id, versionId, endpointId] = [newId(), newId(), newId()]
  const isClosed = info.gated || info.isPrivate
  const endpoint = await publishVersion(trx, {
    version: {
      id: versionId,
      account_id: accountId,
      model_key: modelKeyOf(`hf-${info.repoId}`, versionId),
      name: info.repoId,
      model_config_id: id,
      runtime_profile: verdict.compatibility.runtime_profile_id ?? '',
      // Other accounts may build only on repositories that are open to the public.
      visibility: isClosed ? 'private' : 'public',
      lifecycle_status: 'candidate',
      memory_mb: verdict.requirements.vram_mb ?? 1,
      created_at: now,
    },
    files: files.map((file) => ({
      ...file,
      object_key: hubKey({ repoId: info.repoId, revision: info.revision, path: file.path }),
    })),
    listing: importedListing(task),
    names: namesOf(info.repoId, endpointId),
    endpoint: {
      id: endpointId,
      account_id: accountId,
      display_name: info.repoId,
      description: `${info.repoId} from the model hub.`,
      visibility: 'public',
      // Only the owner may call a candidate; `ready` opens it to all accounts. For a closed repository, an operator
      // must first review whether its license allows that.
      review_status: isClosed ? 'pending_review' : 'active',
      source: 'catalog',
      is_base_model: true,
      task_type: task,
      base_model: info.repoId,
      model_category: HUB_TASKS[task].category,
      tags: ['hub'],
      price_micro: 0,
      hub_revision: info.revision,
      created_at: now,
      updated_at: now,
    },
  })
  if (!endpoint) throw new Error('no free name for an imported model')
  await hubModelRepository.insertHubModel(trx, {
    id,
    account_id: accountId,
    repo_id: info.repoId,
    revision: info.revision,
    task_type: task,
    model_name: endpoint.name,
    version_id: versionId,
    endpoint_id: endpoint.id,
    size_bytes: verdict.sizeBytes,
    vram_mb: verdict.requirements.vram_mb,
    params_b: verdict.requirements.params_b,
    licence: info.licence,
    created_at: now,
    updated_at: now,
  })
}

/**
 * Names the endpoint after the repository; if another account has already imported it, appends the end of the
 * endpoint's id.
 */
const namesOf = (repoId: string, endpointId: string): string[] =>
  [hubModelName(repoId), distinctHubName(repoId, endpointId)].filter((name) => name !== null)
