import Type from 'typebox'
import { cursorScope, decodeCursor, encodeCursor } from '../../../../db/keyset.ts'
import * as endpointListRepository from '../../../../db/repositories/endpoints/lists.ts'
import { Nullable } from '../../../../schemas/common.ts'
import { InferenceModel, InferenceModelQuery } from '../../../../schemas/endpoint.ts'
import { route } from '../../../http/route.ts'
import { hubOriginOf } from './present.ts'
import { readinessOf } from './readiness.ts'

export const listInferenceModels = route({
  operationId: 'listInferenceModels',
  summary: 'List the models that are open to everybody',
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
    const scope = cursorScope('inference-models', category, activeOnly)
    const before = cursor === undefined ? undefined : decodeCursor(scope, cursor)
    const rows = await endpointListRepository.listOfferedEndpoints(services.db, {
      category,
      activeOnly,
      before,
      limit: limit + 1,
    })
    const page = rows.slice(0, limit)
    const last = page.at(-1)
    const readiness = include_readiness ? await readinessOf(services, page, null) : undefined

    return {
      models: page.map((row) => ({
        model_name: row.name,
        task_type: row.task_type,
        model_category: row.model_category,
        ...hubOriginOf(row),
        ...readiness?.(row),
      })),
      next_cursor: last && rows.length > limit ? encodeCursor(scope, last.id) : null,
    }
  },
})
