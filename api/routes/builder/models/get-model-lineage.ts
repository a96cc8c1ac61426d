import * as lineageRepository from '../../../../db/repositories/models/lineage.ts'
import { lineageGraph } from '../../../../domain/models/lineage.ts'
import { Lineage, ModelParams } from '../../../../schemas/model.ts'
import { route } from '../../../http/route.ts'
import { requireModel } from './require-model.ts'

export const getModelLineage = route({
  operationId: 'getModelLineage',
  summary: 'Get the lineage of a model, back to hub repositories and datasets',
  method: 'GET',
  path: '/models/{model_id}/lineage',
  auth: 'api-key',
  params: ModelParams,
  success: { status: 200, schema: Lineage },
  errors: ['not_found'],

  async handler({ caller: { accountId }, params }, { db }) {
    const { id } = await requireModel(db, accountId, params.model_id)
    const { versions, sources } = await lineageRepository.walkLineage(db, accountId, id)
    return lineageGraph(versions, sources)
  },
})
