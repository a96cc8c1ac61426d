import Type from 'typebox'
import * as endpointListRepository from '../../../../db/repositories/endpoints/lists.ts'
import { Nullable } from '../../../../schemas/common.ts'
import { InferenceModel, InferenceModelQuery } from '../../../../schemas/endpoint.ts'
import { readPage } from '../../../http/page.ts'
import { route } from '../../../http/route.ts'
import { hubOriginOf } from './present.ts'
import { readinessOf } from './readiness.ts'

export const listInferenceModels = route({
  operationId: 'listInferenceModels',
  summary: 'List the models that every account may use',
  method: 'GET',
  path: '/inference/models',
  auth: 'none',
  query: InferenceModelQuery,
  success: {
    status: 200,
    schema: Type.Object({ models: Type.Array(InferenceModel), next_cursor: Nullable(Type.String()) }),
  },

  async handler({ query }, services) {
    const { category, active_only: activeOnly = true, include_readiness, limit = 1000, cursor } = query
    const { items, next_cursor } = await readPage(
      { limit, ...(cursor !== undefined && { cursor }) },
      ['inference-models', category, activeOnly],
      (page) => endpointListRepository.listOfferedEndpoints(services.db, { category, activeOnly, ...page }),
    )
    const readiness = include_readiness ? await readinessOf(services, items, null) : undefined

    return {
      models: items.map((row) => ({
        model_name: row.name,
        task_type: row.task_type,
        model_category: row.model_category,
        ...hubOriginOf(row),
        ...readiness?.(row),
      })),
      next_cursor,
    }
  },
})
