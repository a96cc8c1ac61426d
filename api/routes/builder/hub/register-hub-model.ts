import { createHash } from 'node:crypto'
import * as hubModelRepository from '../../../../db/repositories/models/hub-models.ts'
import type { HubImportRow } from '../../../../db/repositories/models/hub-models.ts'
import { ApiError, type Issue } from '../../../../domain/errors.ts'
import { importedListing } from '../../../../domain/task-types/index.ts'
import type { HubClient } from '../../../../platform/hub/client.ts'
import {
  type HubRegistration,
  HubRegistration as HubRegistrationSchema,
  RegisterHubModel,
} from '../../../../schemas/hub.ts'
import { route } from '../../../http/route.ts'
import { askingHub } from '../../../hub/errors.ts'
import { createHubModel, type HubImport } from './create-hub-model.ts'
import { commitOnDefaultBranch } from './default-branch.ts'
import { type RepoAssessment, lookAtRepo } from './look-at-repo.ts'

/** The hub omits digests only for small files; a larger file without one is an error. */
const MAX_SMALL_FILE_BYTES = 64 * 1024 * 1024

export const registerHubModel = route({
  operationId: 'registerHubModel',
  summary: 'Import a hub repository as a model; it is downloaded on the first request',
  method: 'POST',
  path: '/models/hf/register',
  auth: 'api-key',
  body: RegisterHubModel,
  success: { status: 201, schema: HubRegistrationSchema },
  errors: ['not_found', 'forbidden', 'rate_limited', 'unavailable'],

  async handler({ caller: { accountId }, body }, services) {
    const { db, hub, now, publicUrl } = services
    const { repo_id: repoId, task_type: task, revision } = body
    const known = await hubModelRepository.findHubModelByRepo(db, accountId, repoId)
    if (known) return present(known, publicUrl)

    const commit =
      revision === undefined
        ? undefined
        : await askingHub(commitOnDefaultBranch(services, accountId, { repoId, revision }))
    const look = await askingHub(
      lookAtRepo(services, { accountId, repoId, revision: commit }, { task, thorough: true }),
    )
    refuseIncompatible(look)
    const files = await askingHub(withDigests(hub, look))
    const order: HubImport = { ...look, accountId, task, files, now: now() }
    const row = await db.transaction().execute((trx) => createHubModel(trx, order))
    return present(row, publicUrl)
  },
})

function refuseIncompatible({ info, verdict: { compatibility } }: RepoAssessment): void {
  if (compatibility.status !== 'incompatible') return
  const failed = compatibility.checks.filter(({ check, passed }) => !passed && check !== 'licence')
  const issues = failed.map(({ check, message }): Issue => ({
    loc: ['body', 'repo_id'],
    msg: message,
    type: `hub_${check}`,
  }))
  throw new ApiError(
    'validation_failed',
    `${info.repoId} cannot be imported. ${issues[0]?.msg ?? ''}`.trim(),
    {
      details: { issues, compatibility },
    },
  )
}

/** Adds the digest of every file that a node will download: from the hub for large files, computed for small ones. */
async function withDigests(
  hub: Pick<HubClient, 'read'>,
  { info, verdict }: RepoAssessment,
): Promise<HubImport['files']> {
  const files: HubImport['files'][number][] = []
  for (const file of info.files.filter(({ path }) => verdict.files.includes(path))) {
    const sha256 = file.sha256 ?? digestOf(await hub.read(info, file, MAX_SMALL_FILE_BYTES))
    files.push({ path: file.path, size_bytes: file.sizeBytes, sha256 })
  }
  return files
}

const digestOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

function present(row: HubImportRow, baseUrl: string): HubRegistration {
  const url = `${baseUrl}/api/builder/v1/endpoints/${row.endpoint_id}/infer`
  const listing = importedListing(row.task_type)
  return {
    model_config_id: row.id,
    endpoint_id: row.endpoint_id,
    repo_id: row.repo_id,
    status: 'registered',
    message: `${row.repo_id} is registered as ${row.model_name} and is downloaded on its first request.`,
    inference_url: url,
    test_request: { method: 'POST', url, body: { input: listing.example_input } },
    model_name: row.model_name,
    version_id: row.version_id,
    revision: row.revision,
  }
}
