import Type from 'typebox'
import { ApiError } from '../../../domain/errors.ts'
import type { Catalog, CatalogModel } from '../../../platform/catalog.ts'

export const ModelConfigParams = Type.Object({ model_id: Type.String({ minLength: 1, maxLength: 200 }) })

export function requireModel(catalog: Catalog, modelId: string): CatalogModel {
  const model = catalog.model(modelId)
  if (!model) throw new ApiError('not_found', `there is no model config ${modelId}`)
  return model
}
