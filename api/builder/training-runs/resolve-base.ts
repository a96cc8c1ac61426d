import type { Transaction } from 'kysely'
import {
  findUsableVersion,
  listVersionPaths,
  type VersionRef,
} from '../../../db/repositories/artifact-refs.ts'
import { findTrainingRun } from '../../../db/repositories/training-runs.ts'
import type { Database } from '../../../db/tables.ts'
import type { ModelVersionRow } from '../../../db/tables/models.ts'
import { invalid } from '../../../domain/errors.ts'
import type { CatalogModel } from '../../../platform/catalog.ts'
import type { Config } from '../../../platform/config.ts'
import type { ObjectStore } from '../../../platform/object-store.ts'
import type { CreateTrainingRun } from '../../../schemas/training-run.ts'
import { type Storage, storagePrefix } from '../../storage-ref.ts'

interface Asked {
  accountId: string
  model: CatalogModel
  body: Pick<CreateTrainingRun, 'base' | 'parent_job_id'>
}

/** What a run starts from, checked; gives the job it descends from when the caller names none. */
export async function resolveBase(
  trx: Transaction<Database>,
  { accountId, model, body }: Asked,
  storage: Storage & { objects: ObjectStore; config: Pick<Config, 'HEARTH_HUB_ENDPOINT'> },
): Promise<{ parentJobId: string | null }> {
  const { base } = body
  const { model_id, trainer } = model.config
  if (!base || base.type === 'hf') {
    if (trainer.base === 'required' && !storage.config.HEARTH_HUB_ENDPOINT) throw needsBase()
    return { parentJobId: null }
  }
  if (!trainer.base) {
    throw invalid(['body', 'base'], `${model_id} does not support retraining: it always starts from nothing`)
  }
  if (base.type === 'storage') {
    await assertStoredModel(model, storagePrefix(base.uri, accountId, storage), storage.objects)
    return { parentJobId: null }
  }
  const version = await usableVersion(trx, accountId, base)
  await assertFits(trx, model, version)
  // Of a public version the run stays its owner's matter; the version itself is in the lineage.
  const parent = version.job_id && (await findTrainingRun(trx, accountId, version.job_id))
  return { parentJobId: parent ? parent.id : null }
}

/** Said now, not by an attempt that cannot succeed. */
const needsBase = () =>
  invalid(
    ['body', 'base'],
    'must be a model_version, job or storage: there is no model hub here to fetch one from (the operator sets HEARTH_HUB_ENDPOINT)',
  )

async function usableVersion(
  trx: Transaction<Database>,
  accountId: string,
  base: VersionRef,
): Promise<ModelVersionRow> {
  const [field, what] =
    base.type === 'job' ? ['job_id', 'job of yours with a finished model'] : ['version_id', 'version']
  const version = await findUsableVersion(trx, accountId, base)
  if (!version) throw invalid(['body', 'base', field], `there is no such ${what}`)
  if (version.lifecycle_status === 'disabled') {
    throw invalid(['body', 'base', field], 'this version is disabled')
  }
  return version
}

/** A language model needs a folder of the Hugging Face kind; the others a model of their own config. */
async function assertFits(
  trx: Transaction<Database>,
  { config }: CatalogModel,
  version: ModelVersionRow,
): Promise<void> {
  if (config.trainer.base === 'required') {
    assertModelFolder(await listVersionPaths(trx, version.id))
  } else if (version.model_config_id !== config.model_id) {
    const msg = `is a model of ${version.model_config_id}; ${config.model_id} goes on only from one of its own`
    throw invalid(['body', 'base'], msg)
  }
}

async function assertStoredModel(model: CatalogModel, prefix: string, objects: ObjectStore): Promise<void> {
  const paths: string[] = []
  for await (const { key } of objects.list(prefix)) paths.push(key.slice(prefix.length))
  if (paths.length === 0) throw invalid(['body', 'base', 'uri'], 'there is nothing at this address')
  if (model.config.trainer.base === 'required') assertModelFolder(paths)
}

function assertModelFolder(paths: readonly string[]): void {
  const isFolder = ['', 'model/'].some(
    (at) =>
      paths.includes(`${at}config.json`) &&
      paths.some((path) => path.startsWith(at) && path.endsWith('.safetensors')),
  )
  if (isFolder) return
  throw invalid(['body', 'base'], 'holds no language model with config.json and safetensors weights')
}
