import type { Transaction } from 'kysely'
import * as hubVersionRepository from '../../../../db/repositories/models/hub-versions.ts'
import type { VersionFacts } from '../../../../db/repositories/models/version-facts.ts'
import * as artifactRefRepository from '../../../../db/repositories/training/artifact-refs.ts'
import * as jobRepository from '../../../../db/repositories/training/jobs.ts'
import type { NewMergeSource } from '../../../../db/repositories/training/merges.ts'
import type { Database } from '../../../../db/tables.ts'
import { isChatCapable } from '../../../../domain/chat/chat.ts'
import { invalid } from '../../../../domain/errors.ts'
import { weightsFor } from '../../../../domain/training/merge.ts'
import type { Catalog } from '../../../../platform/catalog.ts'
import type { Config } from '../../../../platform/config.ts'
import type { ObjectStore } from '../../../../platform/object-store/store.ts'
import type { ArtifactRef } from '../../../../schemas/artifact-ref.ts'
import type { CreateTrainingMerge, MergeMethod } from '../../../../schemas/training-merge.ts'
import { type Storage, storagePrefix } from '../../../registry/storage-ref.ts'
import { taskTypeOf } from '../../../registry/task-type-of.ts'
import { assertVersionEnabled } from '../training-runs/assert-enabled.ts'
import { baseOfRun } from '../training-runs/present.ts'

type Loc = readonly (string | number)[]
type Kind = 'model' | 'adapter'

interface ResolveSourcesOptions {
  trx: Transaction<Database>
  accountId: string
  catalog: Pick<Catalog, 'model'>
  storage: Storage & { objects: ObjectStore; config: Pick<Config, 'HEARTH_HUB_ENDPOINT'> }
}

/** A merge's resolved inputs. */
interface MergeInputs {
  sources: NewMergeSource[]
  /** The version whose description the result copies; undefined when no model is a version. */
  model: VersionFacts | undefined
  /** The base that the caller named, or that the adapters were trained on; `undefined` for methods without one. */
  base: { ref: ArtifactRef; version: VersionFacts | undefined } | undefined
}

/** Resolves a merge's references and checks each of them. */
export async function resolveSources(
  options: ResolveSourcesOptions,
  body: CreateTrainingMerge,
  method: MergeMethod,
): Promise<MergeInputs> {
  const isFolding = method === 'adapter_merge'
  const field = isFolding ? 'adapters' : 'sources'
  const role = isFolding ? 'adapter' : 'source'
  const refs = body[field] ?? []
  const weights = weightsFor(method, body.weights, refs.length)
  const parts: { source: NewMergeSource; version: VersionFacts | undefined }[] = []
  for (const [i, ref] of refs.entries()) {
    const version = await resolve(options, ref, { place: [field, i], kind: isFolding ? 'adapter' : 'model' })
    parts.push({
      source: { role, ref, version_id: version?.id ?? null, weight: weights[i] ?? 1 },
      version,
    })
  }
  const ref = body.base ?? (isFolding ? await recordedBase(options, parts) : undefined)
  const given = ref && { ref, version: await resolve(options, ref, { place: ['base'], kind: 'model' }) }
  // slerp does not use its base in the computation.
  const base = method === 'slerp' ? undefined : given
  if (base) {
    const version_id = base.version?.id ?? null
    const source = { role: 'base', ref: base.ref, version_id, weight: null } as const
    parts.unshift({ source, version: base.version })
  }
  const model = parts.find(({ version }) => version)?.version
  return { sources: parts.map(({ source }) => source), model, base }
}

/** Returns the version behind a reference, locked until the merge is committed; `undefined` for any other reference. */
async function resolve(
  options: ResolveSourcesOptions,
  ref: ArtifactRef,
  { place, kind }: { place: Loc; kind: Kind },
): Promise<VersionFacts | undefined> {
  const { trx, accountId, catalog, storage } = options
  if (ref.type === 'storage') {
    const prefix = storagePrefix(ref.uri, accountId, storage, place)
    const paths: string[] = []
    for await (const { key } of storage.objects.list(prefix)) paths.push(key.slice(prefix.length))
    if (paths.length === 0) throw invalid(['body', ...place, 'uri'], 'there is nothing at this address')
    assertHolds(paths, kind, place)
    return undefined
  }
  const version =
    ref.type === 'hf'
      ? await importOf(options, ref, place)
      : await artifactRefRepository.shareLockUsableVersion(trx, accountId, ref)
  // The node discovers the files of an unregistered repository when it downloads them.
  if (!version && ref.type === 'hf') return undefined
  if (!version) throw absent(ref, place)
  assertVersionEnabled(version, ['body', ...place])
  const taskType = await taskTypeOf(trx, catalog, version)
  if (taskType !== undefined && !isChatCapable(taskType)) {
    throw invalid(['body', ...place], `is a model for ${taskType}; only language models can be merged`)
  }
  assertHolds(await artifactRefRepository.listVersionPaths(trx, version.id), kind, place)
  return version
}

const absent = ({ type }: ArtifactRef, loc: Loc) =>
  type === 'job'
    ? invalid(['body', ...loc, 'job_id'], 'there is no such job with a finished model in your account')
    : invalid(['body', ...loc, 'version_id'], 'there is no such version')

/** Finds a repository's import, if it has the requested revision. */
async function importOf(
  { trx, accountId, storage }: ResolveSourcesOptions,
  { repo_id, revision }: Extract<ArtifactRef, { type: 'hf' }>,
  loc: Loc,
): Promise<VersionFacts | undefined> {
  const imported = await hubVersionRepository.shareLockHubVersion(trx, accountId, repo_id)
  if (imported) assertVersionEnabled(imported, ['body', ...loc])
  if (imported && (revision === undefined || revision === imported.revision)) return imported
  if (storage.config.HEARTH_HUB_ENDPOINT) return undefined
  throw invalid(
    ['body', ...loc, 'repo_id'],
    'this repository has not been registered here, and there is no model hub to fetch it from (the operator sets HEARTH_HUB_ENDPOINT)',
  )
}

function assertHolds(paths: readonly string[], kind: Kind, loc: Loc): void {
  const holds = (at: string, config: string) =>
    paths.includes(`${at}${config}`) &&
    paths.some((path) => path.startsWith(at) && path.endsWith('.safetensors'))
  if (kind === 'adapter') {
    if (holds('', 'adapter_config.json') || holds('adapter/', 'adapter_config.json')) return
    throw invalid(['body', ...loc], 'holds no LoRA adapter with adapter_config.json and safetensors weights')
  }
  if (holds('', 'config.json') || holds('model/', 'config.json')) return
  throw invalid(['body', ...loc], 'holds no language model with config.json and safetensors weights')
}

/** Returns the base that all adapters were trained on, regardless of the kind of reference that names it. */
async function recordedBase(
  options: ResolveSourcesOptions,
  adapters: readonly { version: VersionFacts | undefined }[],
): Promise<ArtifactRef> {
  const bases = new Map<string, ArtifactRef>()
  for (const { version } of adapters) {
    const base = version && (await baseOf(options, version))
    if (!base)
      throw invalid(['body', 'base'], 'the platform does not know the base of these adapters; name it')
    bases.set(JSON.stringify(base), base)
  }
  const [base, other] = bases.values()
  if (!base || other)
    throw invalid(['body', 'base'], 'these adapters were trained on different bases; name one')
  return base
}

async function baseOf(
  { trx, accountId }: ResolveSourcesOptions,
  { base_model_version_id: version_id, job_id }: VersionFacts,
): Promise<ArtifactRef | undefined> {
  if (version_id) {
    const ref = { type: 'model_version', version_id } as const
    return (await artifactRefRepository.shareLockUsableVersion(trx, accountId, ref)) && ref
  }
  const run = job_id ? await jobRepository.findOwnJob(trx, accountId, job_id) : undefined
  const ref = run?.job_type === 'training' ? baseOfRun(run) : null
  return ref?.type === 'storage' || ref?.type === 'hf' ? ref : undefined
}
