import type { Kysely } from 'kysely'
import * as hubModelRepository from '../../../../db/repositories/models/hub-models.ts'
import type { HubImportRow } from '../../../../db/repositories/models/hub-models.ts'
import type { Database } from '../../../../db/tables.ts'
import { invalid } from '../../../../domain/errors.ts'
import { isUuid } from '../../../../domain/uuid.ts'
import type { Catalog, CatalogModel } from '../../../../platform/catalog.ts'
import type { ArtifactRef } from '../../../../schemas/artifact-ref.ts'
import type { CreateTrainingRun } from '../../../../schemas/training-run.ts'
import { noModelConfig } from '../model-configs/require-model.ts'

interface ModelChoice {
  model: CatalogModel
  /** The base of the run: as requested, or the import that the config refers to. */
  base: CreateTrainingRun['base']
}

/**
 * Returns the config that a request names as `model_config_id` or `model`: a catalog config or a hub import. An import
 * is trained with the catalog's config for models of its task type.
 */
export async function chooseModel(
  db: Kysely<Database>,
  catalog: Catalog,
  { accountId, body }: { accountId: string; body: CreateTrainingRun },
): Promise<ModelChoice> {
  const { model_config_id, model, base } = body
  const field = model_config_id === undefined ? 'model' : 'model_config_id'
  // The schema requires one of the two fields.
  const name = model_config_id ?? model ?? ''
  if (model !== undefined && model !== name) {
    throw invalid(['body', 'model'], 'names a different model config than model_config_id')
  }
  if (isUuid(name)) {
    const imported = await hubModelRepository.findListedHubModel(db, accountId, name)
    if (imported) return chooseImport(catalog, imported, { field, base })
  }
  const found = catalog.model(name)
  if (!found) throw invalid(['body', field], noModelConfig(catalog, name))
  const { is_active, lifecycle_status } = found.config
  if (!is_active || lifecycle_status === 'disabled') {
    throw invalid(['body', field], `the model config ${name} is not active`)
  }
  return { model: found, base }
}

function chooseImport(
  catalog: Catalog,
  { repo_id, version_id, lifecycle_status, task_type }: HubImportRow,
  { field, base }: { field: string; base: CreateTrainingRun['base'] },
): ModelChoice {
  const refuse = (reason: string) => invalid(['body', field], `${repo_id} ${reason}`)
  if (lifecycle_status === 'disabled') throw refuse('is disabled')
  if (base)
    throw invalid(['body', 'base'], `the run already starts from ${repo_id}, which ${field} names; omit base`)
  const model = catalog.tunerOf(task_type)
  if (!model) throw refuse(`cannot be trained: no model config here starts from models for ${task_type}`)
  const ref: ArtifactRef = { type: 'model_version', version_id }
  return { model, base: ref }
}
