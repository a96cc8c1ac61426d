import Type from 'typebox'
import * as modelOrderRepository from '../../../../db/repositories/nodes/model-orders.ts'
import * as nodeModelRepository from '../../../../db/repositories/nodes/models.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { ModelExpectation } from '../../../../schemas/training-merge.ts'
import { route } from '../../../http/route.ts'
import { modelKeysOf } from '../jobs/model-keys.ts'
import { expectationOf } from './expectation-of.ts'

export const getNodeModelExpectation = route({
  operationId: 'getNodeModelExpectation',
  summary: "Get the models with which a node computes a candidate's expected logits",
  method: 'GET',
  path: '/nodes/models/{model_key}/expectation',
  auth: 'node-signature',
  params: Type.Object({ model_key: Type.String({ minLength: 1, maxLength: 200 }) }),
  success: { status: 200, schema: ModelExpectation },
  errors: ['not_found', 'rate_limited', 'unavailable'],

  async handler({ caller: { nodeId }, params: { model_key: modelKey } }, services) {
    const { db } = services
    const found =
      (await modelOrderRepository.isOrdered(db, { nodeId, modelKey })) &&
      (await nodeModelRepository.findModelFiles(db, modelKey))
    if (!found || found.version.lifecycle_status !== 'candidate') {
      throw new ApiError('not_found', 'this node has no candidate with this key to test')
    }
    const ingredients = await expectationOf(services, found.version, { nodeId, modelKey })
    await modelOrderRepository.grantModels(db, nodeId, modelKeysOf(ingredients))
    return { ingredients }
  },
})
