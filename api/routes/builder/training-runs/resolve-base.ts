import type { Transaction } from 'kysely'
import * as hubModelRepository from '../../../../db/repositories/models/hub-models.ts'
import * as hubVersionRepository from '../../../../db/repositories/models/hub-versions.ts'
import type { VersionFacts } from '../../../../db/repositories/models/version-facts.ts'
import * as artifactRefRepository from '../../../../db/repositories/training/artifact-refs.ts'
import type { VersionRef } from '../../../../db/repositories/training/artifact-refs.ts'
import * as jobRepository from '../../../../db/repositories/training/jobs.ts'
import type { Database } from '../../../../db/tables.ts'
import { invalid } from '../../../../domain/errors.ts'
import { type BaseModel, baseModelOf } from '../../../../domain/models/base-model.ts'
import type { Catalog, CatalogModel } from '../../../../platform/catalog.ts'
import type { Config } from '../../../../platform/config.ts'
import type { ObjectStore } from '../../../../platform/object-store/store.ts'
import type { ArtifactRef } from '../../../../schemas/artifact-ref.ts'
import type { CreateTrainingRun } from '../../../../schemas/training-run.ts'
import { type Storage, storagePrefix } from '../../../registry/storage-ref.ts'
import { taskTypeOf } from '../../../registry/task-type-of.ts'
import { assertVersionEnabled } from './assert-enabled.ts'

interface ResolveBaseOptions {
  accountId: string
  catalog: Catalog
  model: CatalogModel
  base: CreateTrainingRun['base']
  /** The repository that the hyperparameters name. */
  baseModel: unknown
}

/** A run's base. */
export interface ResolvedBase {
  /** Null when the config's own base is used. */
  ref: ArtifactRef | null
  /** The name of the base; undefined for configs without one. */
  named: BaseModel | undefined
  /** The parent job of the run if the caller names none. */
  parentJobId: string | null
  /** Notes about fields that are accepted but have no effect. */
  notes: string[]
}

/** Checks a run's base, and locks it until the run is committed. */
export async function resolveBase(
  trx: Transaction<Database>,
  { accountId, catalog, model, base, baseModel }: ResolveBaseOptions,
  storage: Storage & { objects: ObjectStore; config: Pick<Config, 'HEARTH_HUB_ENDPOINT'> },
): Promise<ResolvedBase> {
  const { model_id, trainer } = model.config
  if (!base || base.type === 'hf') {
    const isNeeded = trainer.base === 'required'
    if (isNeeded && !storage.config.HEARTH_HUB_ENDPOINT) throw needsBase()
    const repoId = isNeeded ? String(baseModel) : undefined
    if (repoId !== undefined) await assertImportFits(trx, { accountId, catalog, model }, repoId)
    const named = repoId === undefined ? undefined : { name: repoId, revision: null }
    return { ref: null, named, parentJobId: null, notes: base ? ignoredBase(model, base, repoId) : [] }
  }
  if (!trainer.base) {
    throw invalid(['body', 'base'], `${model_id} does not support retraining: it always starts from scratch`)
  }
  if (base.type === 'storage') {
    await assertStoredModel(model, storagePrefix(base.uri, accountId, storage), storage.objects)
    return { ref: base, named: { name: base.uri, revision: null }, parentJobId: null, notes: [] }
  }
  const version = await usableVersion(trx, accountId, base)
  await assertFits(trx, { catalog, model, place: ['body', 'base'] }, version)
  // The run behind a public version belongs to its owner; the version itself is in the lineage.
  const parent = version.job_id && (await jobRepository.findOwnJob(trx, accountId, version.job_id))
  const named = baseModelOf(version.id, await hubModelRepository.findHubImport(trx, version.id))
  return { ref: base, named, parentJobId: parent ? parent.id : null, notes: [] }
}

/** The error for a missing base. We fail the request rather than start an attempt that cannot succeed. */
const needsBase = () =>
  invalid(
    ['body', 'base'],
    'must be a model_version, job or storage: there is no model hub here to fetch one from (the operator sets HEARTH_HUB_ENDPOINT)',
  )

/** Throws if the account disabled the repository's import, which must not be downloaded directly either. */
async function assertImportFits(
  trx: Transaction<Database>,
  { accountId, ...options }: Pick<ResolveBaseOptions, 'accountId' | 'catalog' | 'model'>,
  repoId: string,
): Promise<void> {
  const imported = await hubVersionRepository.shareLockHubVersion(trx, accountId, repoId)
  if (!imported) return
  const loc = ['body', 'hyperparameters', 'base_model']
  assertVersionEnabled(imported, loc)
  await assertFits(trx, { ...options, place: loc }, imported)
}

function ignoredBase(
  { config: { model_id } }: CatalogModel,
  { repo_id, revision }: Extract<ArtifactRef, { type: 'hf' }>,
  repoId: string | undefined,
): string[] {
  if (repoId === repo_id && revision === undefined) return []
  const given = revision === undefined ? repo_id : `${repo_id} at ${revision}`
  const why =
    repoId === undefined
      ? `${model_id} starts from scratch unless base is a model_version, a job or a storage address`
      : `the run starts from the hub's current version of ${repoId}, which hyperparameters.base_model names`
  return [`base ${given} is ignored: ${why}.`]
}

async function usableVersion(
  trx: Transaction<Database>,
  accountId: string,
  base: VersionRef,
): Promise<VersionFacts> {
  const [field, what] =
    base.type === 'job' ? ['job_id', 'job with a finished model in your account'] : ['version_id', 'version']
  const version = await artifactRefRepository.shareLockUsableVersion(trx, accountId, base)
  if (!version) throw invalid(['body', 'base', field], `there is no such ${what}`)
  assertVersionEnabled(version, ['body', 'base', field])
  return version
}

/**
 * Checks that a base fits the config. A config that needs a base accepts the Hugging Face folder of a model with one of
 * its task types. Other configs accept only models that they have trained.
 */
async function assertFits(
  trx: Transaction<Database>,
  { catalog, model, place }: Pick<ResolveBaseOptions, 'catalog' | 'model'> & { place: readonly string[] },
  version: VersionFacts,
): Promise<void> {
  const { config } = model
  if (config.trainer.base === 'required') {
    const taskType = await taskTypeOf(trx, catalog, version)
    const wanted = config.trainer.base_task_types ?? []
    if (taskType !== undefined && !wanted.includes(taskType)) {
      const msg = `is a model for ${taskType}; ${config.model_id} starts from models for ${wanted.join(', ')}`
      throw invalid(place, msg)
    }
    assertModelFolder(await artifactRefRepository.listVersionPaths(trx, version.id), place)
  } else if (version.model_config_id !== config.model_id) {
    const msg = `is a model of ${version.model_config_id}; ${config.model_id} continues only from its own models`
    throw invalid(place, msg)
  }
}

async function assertStoredModel(model: CatalogModel, prefix: string, objects: ObjectStore): Promise<void> {
  const paths: string[] = []
  for await (const { key } of objects.list(prefix)) paths.push(key.slice(prefix.length))
  if (paths.length === 0) throw invalid(['body', 'base', 'uri'], 'there is nothing at this address')
  if (model.config.trainer.base === 'required') assertModelFolder(paths, ['body', 'base'])
}

function assertModelFolder(paths: readonly string[], loc: readonly string[]): void {
  const isFolder = ['', 'model/'].some(
    (at) =>
      paths.includes(`${at}config.json`) &&
      paths.some((path) => path.startsWith(at) && path.endsWith('.safetensors')),
  )
  if (isFolder) return
  throw invalid(loc, 'holds no model with config.json and safetensors weights')
}
