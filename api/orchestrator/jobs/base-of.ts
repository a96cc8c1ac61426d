import { findUsableVersion } from '../../../db/repositories/artifact-refs.ts'
import { findHubVersion } from '../../../db/repositories/merges.ts'
import { findJob } from '../../../db/repositories/training-runs.ts'
import type { TrainingRunRow } from '../../../db/tables/training.ts'
import { ApiError } from '../../../domain/errors.ts'
import { trainingFiles } from '../../../domain/hub-compatibility.ts'
import { isTerminal } from '../../../domain/training-run.ts'
import { HubError, type HubFailure } from '../../../platform/hub.ts'
import type { ArtifactRef } from '../../../schemas/artifact-ref.ts'
import type { JobBase } from '../../../schemas/lease.ts'
import { toHubApiError } from '../../hub-errors.ts'
import type { Services } from '../../services.ts'
import { storagePrefix } from '../../storage-ref.ts'
import { hubFileUrl } from '../nodes/hub-file-url.ts'

const URL_LIFETIME_S = 3_600
/** What passes by itself: the run waits and the node asks again. */
const PASSING: readonly HubFailure[] = ['rate_limited', 'unavailable', 'invalid_answer']

/**
 * What a run starts from, as its node is to fetch it; null for models that start from nothing. Asked before an attempt
 * begins: a hub that does not answer now costs the run nothing.
 */
export async function baseOf(services: Services, jobId: string): Promise<JobBase | null> {
  const run = await findJob(services.db, jobId)
  return !run || run.job_type !== 'training' || isTerminal(run.status) ? null : baseOfRun(services, run)
}

/** The same for a run whatever its status. */
export async function baseOfRun(services: Services, run: TrainingRunRow): Promise<JobBase | null> {
  const { db, catalog } = services
  const kind = catalog.model(run.model_config_id)?.config.trainer.base
  if (!kind) return null

  const base = run.base as ArtifactRef | null
  if (base?.type === 'storage') return storedFiles(services, run, base.uri)
  if (base?.type === 'model_version' || base?.type === 'job') {
    const version = await findUsableVersion(db, run.account_id, base)
    return version ? { type: 'version', model_key: version.model_key } : gone('The base of this run is gone.')
  }
  // `hf` and no base at all keep the config's own: for a language model the repository it names.
  return kind === 'required' ? hubModel(services, run, String(run.hyperparameters['base_model'])) : null
}

const gone = (message: string): JobBase => ({ type: 'unavailable', message })

/** The files below an address of the object store that a job names. */
export async function storedFiles(
  { objects, config }: Services,
  { account_id }: Pick<TrainingRunRow, 'account_id'>,
  uri: string,
): Promise<Extract<JobBase, { type: 'files' }>> {
  const prefix = storagePrefix(uri, account_id, { config })
  const files: Extract<JobBase, { type: 'files' }>['files'] = []
  for await (const { key, sizeBytes } of objects.list(prefix)) {
    const { url } = await objects.signGet(key, { expiresInS: URL_LIFETIME_S })
    files.push({ path: key.slice(prefix.length), size_bytes: sizeBytes, url })
  }
  if (files.length === 0) throw new ApiError('conflict', `there is nothing at ${uri} any more`)
  return { type: 'files', files }
}

/** A repository of the hub: as the account has registered it, else as it is now. */
async function hubModel(services: Services, run: TrainingRunRow, repoId: string): Promise<JobBase> {
  const version = await findHubVersion(services.db, run.account_id, { repo_id: repoId })
  if (version) return { type: 'version', model_key: version.model_key }
  try {
    const repo = await services.hub.info(repoId)
    const { revision } = repo
    const files = trainingFiles(repo.files).map(({ path, sizeBytes, sha256 }) => ({
      path,
      size_bytes: sizeBytes,
      ...(sha256 !== undefined && { sha256 }),
      url: hubFileUrl(services, { repoId, revision, path }),
    }))
    if (!files.some(({ path }) => path.endsWith('.safetensors')))
      return gone(`The base model ${repoId} holds no safetensors weights.`)
    return { type: 'files', files, cache_key: `${repoId}@${revision}` }
  } catch (err) {
    if (err instanceof HubError && !PASSING.includes(err.code))
      return gone(`The base model ${repoId} cannot be had: ${err.message}.`)
    throw toHubApiError(err)
  }
}
