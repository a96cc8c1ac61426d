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
    const { schema, config } = requireModel(catalog, model_id)
    return { model_id, schema, aliases: config.aliases }
  },
})
