import { ModelConfigSchema } from '../../../../schemas/model-config.ts'
import { route } from '../../../http/route.ts'
import { ModelConfigParams, requireModel } from './require-model.ts'

export const getModelConfigSchema = route({
  operationId: 'getModelConfigSchema',
  summary: 'Get the JSON Schema of a model config',
  method: 'GET',
  path: '/training/model-configs/{model_id}/schema',
  auth: 'none',
  params: ModelConfigParams,
  success: { status: 200, schema: ModelConfigSchema },
  errors: ['not_found'],

  handler({ params: { model_id } }, { catalog }) {
    return { model_id, schema: requireModel(catalog, model_id).schema }
  },
})
