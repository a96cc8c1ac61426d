import Type from 'typebox'
import * as modelCopyRepository from '../../../../db/repositories/nodes/model-copies.ts'
import { silentSince } from '../../../../domain/placement/silence.ts'
import { ModelCopies, ModelCopiesQuery } from '../../../../schemas/operations.ts'
import { route } from '../../../http/route.ts'

export const listLoadedModels = route({
  operationId: 'listLoadedModels',
  summary: 'List the models on online nodes, with the state of each copy, busiest first',
  method: 'GET',
  path: '/admin/models',
  auth: 'operations-key',
  query: ModelCopiesQuery,
  success: { status: 200, schema: Type.Object({ models: Type.Array(ModelCopies) }) },

  async handler({ query: { key } }, { db, now }) {
    return {
      models: await modelCopyRepository.listModelCopies(db, { silentSince: silentSince(now()), key }),
    }
  },
})
