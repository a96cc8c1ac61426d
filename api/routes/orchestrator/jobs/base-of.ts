import * as hubModelRepository from '../../../../db/repositories/models/hub-models.ts'
import * as hubVersionRepository from '../../../../db/repositories/models/hub-versions.ts'
import * as artifactRefRepository from '../../../../db/repositories/training/artifact-refs.ts'
import * as baseRevisionRepository from '../../../../db/repositories/training/base-revisions.ts'
import type { JobFacts } from '../../../../db/repositories/training/jobs.ts'
import { adapterFiles, chooseWeights, trainingFiles } from '../../../../domain/hub/weights.ts'
import { HubError, type HubFailure, type HubRepoInfo } from '../../../../platform/hub/client.ts'
import type { ArtifactRef } from '../../../../schemas/artifact-ref.ts'
import type { JobBase } from '../../../../schemas/nodes/lease.ts'
import { toHubApiError } from '../../../hub/errors.ts'
import { storagePrefix } from '../../../registry/storage-ref.ts'
import type { Services } from '../../../services.ts'
import { type HubFileReader, hubFileUrl } from '../nodes/hub-file-url.ts'

const URL_TTL_S = 3_600
/** Temporary failures: the run keeps waiting while the node retries its claim. */
const PASSING: readonly HubFailure[] = ['rate_limited', 'unavailable', 'invalid_answer']

/** Returns a run's base for its node to download; null for models that are trained from scratch. */
export async function baseOf(
  services: Services,
  run: JobFacts,
  reader: HubFileReader,
): Promise<JobBase | null> {
  const { db, catalog } = services
  const kind = catalog.model(run.model_config_id)?.config.trainer.base
  if (!kind) return null

  const base = run.base as ArtifactRef | null
  if (base?.type === 'storage') return storedFiles(services, run, base.uri)
  if (base?.type === 'model_version' || base?.type === 'job') {
    const version = await artifactRefRepository.findUsableVersion(db, run.account_id, base)
    return version
      ? { type: 'version', model_key: version.model_key }
      : unavailable('The base of this run no longer exists.')
  }
  // An `hf` base and no base both mean the config's own base: for a language model, the repository in its
  // hyperparameters.
  return kind === 'required'
    ? hubModel(services, { run, reader }, String(run.hyperparameters['base_model']))
    : null
}

export const unavailable = (message: string): JobBase => ({ type: 'unavailable', message })

/** Returns the files under an object store address that a job names. */
export async function storedFiles(
  { objects, config }: Services,
  { account_id }: Pick<JobFacts, 'account_id'>,
  uri: string,
): Promise<JobBase> {
  const prefix = storagePrefix(uri, account_id, { config })
  const files: Extract<JobBase, { type: 'files' }>['files'] = []
  for await (const { key, sizeBytes } of objects.list(prefix)) {
    const { url } = await objects.signGet(key, { expiresInS: URL_TTL_S })
    files.push({ path: key.slice(prefix.length), size_bytes: sizeBytes, url })
  }
  return files.length === 0
    ? unavailable(`There are no longer any files at ${uri}.`)
    : { type: 'files', files }
}

/**
 * Returns a hub repository: as the account has registered it, otherwise at the commit that this run, or the run that it
 * resumes from, first resolved. Every attempt gets the same commit.
 */
async function hubModel(
  services: Services,
  { run, reader }: { run: JobFacts; reader: HubFileReader },
  repoId: string,
): Promise<JobBase> {
  const { db } = services
  const pinned = run.base_revision ?? (await baseRevisionRepository.findRevisionToResume(db, run))
  const repo = { repoId, revision: pinned ?? undefined }
  return hubRepository(services, run.account_id, repo, {
    what: 'The base model',
    reader,
    pin: (revision) => baseRevisionRepository.pinBaseRevision(db, run.id, revision),
    choose: trainingFiles,
  })
}

interface HubFetch {
  reader: HubFileReader
  /** The name in messages. */
  what: string
  /** Stores the commit if none is stored yet, and returns the stored one. */
  pin: (revision: string) => Promise<string>
  /** Chooses the files that are needed. */
  choose: typeof trainingFiles
}

/**
 * Returns a repository as the account has registered it at this revision, otherwise as the hub has it, and pins the
 * resolved commit.
 */
export async function hubRepository(
  services: Services,
  accountId: string,
  repo: { repoId: string; revision: string | undefined },
  fetching: HubFetch,
): Promise<JobBase> {
  const { what, pin, choose, reader } = fetching
  const { db, hubReader } = services
  const { repoId } = repo
  const version = await hubVersionRepository.findHubVersion(db, accountId, {
    repo_id: repoId,
    revision: repo.revision,
  })
  if (version) {
    const registered = await hubModelRepository.findHubImport(db, version.id)
    if (registered) await pin(registered.revision)
    return { type: 'version', model_key: version.model_key }
  }
  try {
    const { revision, files } = await hubReader.open(accountId, repoId, repo.revision)
    const first = await pin(revision)
    // Two gateways that resolve the revision at the same time may get different commits; the commit stored first wins.
    if (first !== revision) {
      return await hubRepository(services, accountId, { repoId, revision: first }, fetching)
    }
    const needed = filesOf(services, { repoId, revision, files: choose(files) }, reader)
    if (!needed.some(({ path }) => path.endsWith('.safetensors')))
      return unavailable(
        `${what} ${repoId} contains no safetensors weights${choose === adapterFiles ? ' of an adapter' : ''}.`,
      )
    const lacking = choose === trainingFiles ? chooseWeights(files, null)?.missing[0] : undefined
    if (lacking !== undefined)
      return unavailable(`The weights of ${repoId} are incomplete: ${lacking} is missing.`)
    // Don't cache an adapter: it is small, and would be mistaken for the whole repository.
    return {
      type: 'files',
      files: needed,
      ...(choose === trainingFiles && { cache_key: `${repoId}@${revision}` }),
    }
  } catch (err) {
    if (err instanceof HubError && !PASSING.includes(err.code))
      return unavailable(`${what} ${repoId} is not available: ${err.message}.`)
    throw err instanceof HubError ? toHubApiError(err) : err
  }
}

const filesOf = (
  services: Services,
  { repoId, revision, files }: { repoId: string; revision: string; files: HubRepoInfo['files'] },
  reader: HubFileReader,
) =>
  files.map(({ path, sizeBytes, sha256 }) => ({
    path,
    size_bytes: sizeBytes,
    ...(sha256 !== undefined && { sha256 }),
    ...hubFileUrl(services, { repoId, revision, path }, reader),
  }))
