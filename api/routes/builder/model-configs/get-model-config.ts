import { ModelConfigDetail } from '../../../../schemas/model-config.ts'
import { route } from '../../../http/route.ts'
import { ModelConfigParams, requireModel } from './require-model.ts'

export const getModelConfig = route({
  operationId: 'getModelConfig',
  summary: 'Get a model config with its hyperparameters',
  method: 'GET',
  path: '/training/model-configs/{model_id}',
  auth: 'none',
  params: ModelConfigParams,
  success: { status: 200, schema: ModelConfigDetail },
  errors: ['not_found'],
  handler: ({ params }, { catalog }) => requireModel(catalog, params.model_id).detail,
})
