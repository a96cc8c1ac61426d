import Type from 'typebox'
import { getModelConfigSchema } from '../../routes/builder/model-configs/get-model-config-schema.ts'
import { ModelConfigParams } from '../../routes/builder/model-configs/require-model.ts'
import { operationTool, READS } from '../operation-tool.ts'

export const getModelSchemaTool = operationTool({
  name: 'get_model_schema',
  title: 'Get the hyperparameters of a trainable model',
  description:
    'Returns the JSON Schema of the hyperparameters of a model config, each with its default and its limits.',
  operation: getModelConfigSchema,
  input: Type.Object(
    { model_config_id: ModelConfigParams.properties.model_id },
    { additionalProperties: false },
  ),
  annotations: READS,
  inputsOf: ({ model_config_id }) => ({ params: { model_id: model_config_id } }),
  argumentNames: { model_id: 'model_config_id' },
})
