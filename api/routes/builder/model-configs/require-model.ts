import Type from 'typebox'
import { ApiError } from '../../../../domain/errors.ts'
import type { Catalog, CatalogModel } from '../../../../platform/catalog.ts'

export const ModelConfigParams = Type.Object({ model_id: Type.String({ minLength: 1, maxLength: 200 }) })

export function requireModel(catalog: Catalog, modelId: string): CatalogModel {
  const model = catalog.model(modelId)
  if (!model) throw new ApiError('not_found', noModelConfig(catalog, modelId))
  return model
}

/** The largest number of names in one sentence. */
const SHOWN = 10

/** Explains that no config has this name, and lists those that exist. */
export function noModelConfig({ models }: Catalog, name: string): string {
  const ids = models.filter(({ config }) => config.is_active).map(({ config }) => config.model_id)
  const shown = ids.slice(0, SHOWN).join(', ') + (ids.length > SHOWN ? ' and more' : '')
  return `there is no model config ${name}; there are ${shown} (GET /api/builder/v1/training/model-configs lists them)`
}
