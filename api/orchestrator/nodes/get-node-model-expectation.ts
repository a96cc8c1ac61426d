import Type from 'typebox'
import { findModelFiles } from '../../../db/repositories/node-models.ts'
import { ApiError } from '../../../domain/errors.ts'
import { ModelExpectation } from '../../../schemas/training-merge.ts'
import { route } from '../../http/route.ts'
import { expectationOf } from './expectation-of.ts'

export const getNodeModelExpectation = route({
  operationId: 'getNodeModelExpectation',
  summary: 'What a node compares the logits of a model with before it is promoted',
  method: 'GET',
  path: '/nodes/models/{model_key}/expectation',
  auth: 'node-signature',
  params: Type.Object({ model_key: Type.String({ minLength: 1, maxLength: 200 }) }),
  success: { status: 200, schema: ModelExpectation },
  errors: ['not_found', 'rate_limited', 'unavailable'],

  async handler({ params }, services) {
    const found = await findModelFiles(services.db, params.model_key)
    if (!found) throw new ApiError('not_found', 'there is no model with this key')
    return { ingredients: await expectationOf(services, found.version) }
  },
})
