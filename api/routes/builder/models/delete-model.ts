import * as modelRepository from '../../../../db/repositories/models/models.ts'
import { ModelParams } from '../../../../schemas/model.ts'
import { route } from '../../../http/route.ts'
import { releaseVersions } from './release-versions.ts'

export const deleteModel = route({
  operationId: 'deleteModel',
  summary: 'Delete a model whose versions are all unused; the runs that produced them keep them',
  method: 'DELETE',
  path: '/models/{model_id}',
  auth: 'api-key',
  params: ModelParams,
  success: { status: 204 },
  errors: ['not_found', 'conflict'],

  async handler({ caller: { accountId }, params: { model_id: modelId } }, { db }) {
    await db.transaction().execute(async (trx) => {
      await releaseVersions(trx, { accountId, modelId })
      await modelRepository.removeModel(trx, modelId)
    })
  },
})
