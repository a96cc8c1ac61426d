import * as modelRepository from '../../../../db/repositories/models/models.ts'
import { Model, ModelParams } from '../../../../schemas/model.ts'
import { route } from '../../../http/route.ts'
import { presentModel } from './present.ts'
import { requireModel } from './require-model.ts'

export const getModel = route({
  operationId: 'getModel',
  summary: 'Read a trained model',
  method: 'GET',
  path: '/models/{model_id}',
  auth: 'api-key',
  params: ModelParams,
  success: { status: 200, schema: Model },
  errors: ['not_found'],

  async handler({ caller: { accountId }, params }, { db }) {
    const row = await requireModel(db, accountId, params.model_id)
    return presentModel(row, (await modelRepository.readLatestVersions(db, [row.id])).get(row.id))
  },
})
