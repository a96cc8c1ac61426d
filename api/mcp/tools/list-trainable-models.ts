import Type from 'typebox'
import { listModelConfigs } from '../../routes/builder/model-configs/list-model-configs.ts'
import { operationTool, READS } from '../operation-tool.ts'

export const listTrainableModelsTool = operationTool({
  name: 'list_trainable_models',
  title: 'List trainable models',
  description:
    'Lists the model configs that a training run can use, with the purpose of each. get_model_schema returns the hyperparameters of a config.',
  operation: listModelConfigs,
  input: Type.Object(
    {
      framework: Type.Optional(Type.String({ minLength: 1 })),
      category: Type.Optional(Type.String({ minLength: 1 })),
    },
    { additionalProperties: false },
  ),
  annotations: READS,
  inputsOf: (query) => ({ query }),
})
