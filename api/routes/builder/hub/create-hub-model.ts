import type { Transaction } from 'kysely'
import * as endpointRepository from '../../../../db/repositories/endpoints/endpoints.ts'
import * as hubModelRepository from '../../../../db/repositories/models/hub-models.ts'
import type { HubImportRow } from '../../../../db/repositories/models/hub-models.ts'
import * as versionRepository from '../../../../db/repositories/models/versions.ts'
import type { Database } from '../../../../db/tables.ts'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import { CHAT_LISTING, PLAIN_LISTING } from '../../../../domain/chat/listing.ts'
import { HUB_TASKS, type HubTask } from '../../../../domain/hub/compatibility.ts'
import { hubKey } from '../../../../domain/hub/files.ts'
import { distinctHubName, hubModelName } from '../../../../domain/hub/names.ts'
import { newId } from '../../../../domain/ids.ts'
import { modelKeyOf } from '../../../../domain/training-run.ts'
import type { HubLook } from './look-at-repo.ts'

/** A repository that may be imported, with the digest of every file that nodes will download. */
export interface HubImport extends HubLook {
  accountId: string
  task: HubTask
  files: readonly { path: string; size_bytes: number; sha256: string }[]
  now: Date
}

/** Creates all rows of an import in the transaction of its request; an earlier import of the same account is returned. */
export async function createHubModel(trx: Transaction<Database>, order: HubImport): Promise<HubImportRow> {
  const { accountId, info } = order
  await hubModelRepository.lockHubRepo(trx, accountId, info.repoId)
  const known = await hubModelRepository.findHubModelByRepo(trx, accountId, info.repoId)
  if (!known) await insertAll(trx, order)
  const row = await hubModelRepository.findHubModelByRepo(trx, accountId, info.repoId)
  if (!row) throw new Error('an import was not found in the transaction that made it')
  return row
}

async function insertAll(trx: Transaction<Database>, order: HubImport): Promise<void> {
  const { accountId, info, verdict, task, files, now } = order
  const [id, versionId] = [newId(), newId()]
  const isClosed = info.gated || info.isPrivate
  const profile = verdict.compatibility.runtime_profile_id ?? ''
  const modelKey = modelKeyOf(`hf-${info.repoId}`, versionId)
  const listing = listingOf(task)
  await versionRepository.insertVersion(
    trx,
    {
      id: versionId,
      account_id: accountId,
      model_key: modelKey,
      name: info.repoId,
      model_config_id: id,
      runtime_profile: profile,
      // Other accounts may build only on repositories that are open to everybody.
      visibility: isClosed ? 'private' : 'public',
      lifecycle_status: 'candidate',
      memory_mb: verdict.requirements.vram_mb ?? 1,
      ...listing,
      created_at: now,
    },
    files.map((file) => ({
      ...file,
      object_key: hubKey({ repoId: info.repoId, revision: info.revision, path: file.path }),
    })),
  )
  const endpoint = await listEndpoint(trx, {
    accountId,
    repoId: info.repoId,
    revision: info.revision,
    isClosed,
    task,
    versionId,
    modelKey,
    profile,
    now,
  })
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

interface Listing {
  accountId: string
  repoId: string
  revision: string
  isClosed: boolean
  task: HubTask
  versionId: string
  modelKey: string
  profile: string
  now: Date
}

/**
 * The endpoint is named after the repository; if another account has imported it already, the
 * end of the id is appended.
 */
async function listEndpoint(trx: Transaction<Database>, listing: Listing): Promise<EndpointRow> {
  const id = newId()
  for (const tried of [hubModelName(listing.repoId), distinctHubName(listing.repoId, id)]) {
    if (tried === null) continue
    const row = await endpointRepository.insertEndpoint(trx, {
      id,
      account_id: listing.accountId,
      name: tried,
      display_name: listing.repoId,
      description: `${listing.repoId} from the model hub.`,
      visibility: 'public',
      // Only its owner may call a candidate; `ready` opens it to all accounts. For a closed repository an operator must
      // review first whether its licence allows that.
      review_status: listing.isClosed ? 'pending_review' : 'active',
      source: 'catalog',
      is_base_model: true,
      task_type: listing.task,
      base_model: listing.repoId,
      model_category: HUB_TASKS[listing.task].category,
      version_id: listing.versionId,
      model_key: listing.modelKey,
      runtime_profile: listing.profile,
      ...listingOf(listing.task),
      tags: ['hub'],
      price_micro: 0,
      hub_revision: listing.revision,
      created_at: listing.now,
      updated_at: listing.now,
    })
    if (row) return row
  }
  throw new Error('no free name for an imported model')
}

function listingOf(task: HubTask) {
  const listing = task === 'text-generation' ? CHAT_LISTING : PLAIN_LISTING
  return {
    input_schema: JSON.stringify(listing.input_schema),
    output_schema: JSON.stringify(listing.output_schema),
    example_input: JSON.stringify(listing.example_input),
    example_output: JSON.stringify(listing.example_output),
  }
}
