import type { Transaction } from 'kysely'
import { findUsableVersion, listVersionPaths } from '../../../db/repositories/artifact-refs.ts'
import { findHubVersion, type NewMergeSource } from '../../../db/repositories/merges.ts'
import { findTrainingRun } from '../../../db/repositories/training-runs.ts'
import type { Database } from '../../../db/tables.ts'
import type { ModelVersionRow } from '../../../db/tables/models.ts'
import { invalid } from '../../../domain/errors.ts'
import { weightsFor } from '../../../domain/merge.ts'
import type { ObjectStore } from '../../../platform/object-store.ts'
import type { ArtifactRef } from '../../../schemas/artifact-ref.ts'
import type { CreateTrainingMerge, MergeMethod } from '../../../schemas/training-merge.ts'
import { type Storage, storagePrefix } from '../../storage-ref.ts'

type Place = readonly (string | number)[]
type Kind = 'model' | 'adapter'

interface Asked {
  trx: Transaction<Database>
  accountId: string
  storage: Storage & { objects: ObjectStore }
}

/** What is to be merged, checked reference by reference, and the version that the result takes after. */
export async function resolveSources(
  asked: Asked,
  body: CreateTrainingMerge,
  method: MergeMethod,
): Promise<{ sources: NewMergeSource[]; model: ModelVersionRow }> {
  const isFolding = method === 'adapter_merge'
  const field = isFolding ? 'adapters' : 'sources'
  const refs = body[field] ?? []
  const weights = weightsFor(method, body.weights, refs.length)
  const parts: { source: NewMergeSource; version: ModelVersionRow | undefined }[] = []
  for (const [i, ref] of refs.entries()) {
    const version = await resolve(asked, ref, [field, i], isFolding ? 'adapter' : 'model')
    const role = isFolding ? 'adapter' : 'source'
    parts.push({
      source: { role, ref, version_id: version?.id ?? null, weight: weights[i] ?? 1 },
      version,
    })
  }
  if (body.base) {
    const version = await resolve(asked, body.base, ['base'], 'model')
    parts.unshift({
      source: { role: 'base', ref: body.base, version_id: version?.id ?? null, weight: null },
      version,
    })
  } else if (isFolding) {
    const version = await recordedBase(asked, parts)
    const ref: ArtifactRef = { type: 'model_version', version_id: version.id }
    parts.unshift({ source: { role: 'base', ref, version_id: version.id, weight: null }, version })
  }
  const model = parts.find(({ version }) => version)?.version
  if (!model) throw invalid(['body', field], 'at least one of the models must be a version or a job')
  return { sources: parts.map(({ source }) => source), model }
}

/** The version behind a reference; `undefined` for an address in the object store. */
async function resolve(
  { trx, accountId, storage }: Asked,
  ref: ArtifactRef,
  place: Place,
  kind: Kind,
): Promise<ModelVersionRow | undefined> {
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
      ? await findHubVersion(trx, accountId, ref)
      : await findUsableVersion(trx, accountId, ref)
  if (!version) throw invalid(['body', ...place, ...ABSENT[ref.type].field], ABSENT[ref.type].message)
  if (version.lifecycle_status === 'disabled') throw invalid(['body', ...place], 'this version is disabled')
  assertHolds(await listVersionPaths(trx, version.id), kind, place)
  return version
}

const ABSENT = {
  hf: {
    field: ['repo_id'],
    message: 'this repository has not been registered here; register it from the hub first',
  },
  job: { field: ['job_id'], message: 'there is no such job of yours with a finished model' },
  model_version: { field: ['version_id'], message: 'there is no such version' },
} as const

function assertHolds(paths: readonly string[], kind: Kind, place: Place): void {
  const holds = (at: string, config: string) =>
    paths.includes(`${at}${config}`) &&
    paths.some((path) => path.startsWith(at) && path.endsWith('.safetensors'))
  if (kind === 'adapter') {
    if (holds('', 'adapter_config.json') || holds('adapter/', 'adapter_config.json')) return
    throw invalid(
      ['body', ...place],
      'holds no LoRA adapter with adapter_config.json and safetensors weights',
    )
  }
  if (holds('', 'config.json') || holds('model/', 'config.json')) return
  throw invalid(['body', ...place], 'holds no language model with config.json and safetensors weights')
}

/** The base that all adapters were trained on. */
async function recordedBase(
  asked: Asked,
  adapters: readonly { version: ModelVersionRow | undefined }[],
): Promise<ModelVersionRow> {
  const bases = new Map<string, ModelVersionRow>()
  for (const { version } of adapters) {
    const base = version && (await baseOf(asked, version))
    if (!base) throw invalid(['body', 'base'], 'the base of these adapters is not known here; name it')
    bases.set(base.id, base)
  }
  const [base, other] = bases.values()
  if (!base || other)
    throw invalid(['body', 'base'], 'these adapters were trained on different bases; name one')
  return base
}

async function baseOf(
  { trx, accountId }: Asked,
  { base_model_version_id, job_id }: ModelVersionRow,
): Promise<ModelVersionRow | undefined> {
  if (base_model_version_id) {
    return findUsableVersion(trx, accountId, { type: 'model_version', version_id: base_model_version_id })
  }
  const run = job_id ? await findTrainingRun(trx, accountId, job_id) : undefined
  const repo = run?.hyperparameters['base_model']
  return typeof repo === 'string' ? findHubVersion(trx, accountId, { repo_id: repo }) : undefined
}
