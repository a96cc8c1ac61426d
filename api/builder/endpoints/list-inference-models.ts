import Type from 'typebox'
import { cursorScope, decodeCursor, encodeCursor } from '../../../db/keyset.ts'
import { listOfferedEndpoints } from '../../../db/repositories/endpoint-lists.ts'
import { Nullable } from '../../../schemas/common.ts'
import { InferenceModel, InferenceModelQuery } from '../../../schemas/endpoint.ts'
import { route } from '../../http/route.ts'
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
    const rows = await listOfferedEndpoints(services.db, { category, activeOnly, before, limit: limit + 1 })
    const page = rows.slice(0, limit)
    const last = page.at(-1)
    const readiness = include_readiness
      ? await readinessOf(
          services,
          page.map((row) => row.model_key),
        )
      : undefined

    return {
      models: page.map(({ name, task_type, model_category, model_key }) => ({
        model_name: name,
        task_type,
        model_category,
        ...readiness?.(model_key),
      })),
      next_cursor: last && rows.length > limit ? encodeCursor(scope, last.id) : null,
    }
  },
})
