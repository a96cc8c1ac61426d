import Type from 'typebox'
import { InferenceModelQuery } from '../../../schemas/endpoint.ts'
import { listInferenceModels } from '../../routes/builder/endpoints/list-inference-models.ts'
import { operationTool, READS } from '../operation-tool.ts'

const DEFAULT_MODELS = 50

const { category, include_readiness, cursor } = InferenceModelQuery.properties

export const listModelsTool = operationTool({
  name: 'list_models',
  title: 'List public models',
  description:
    'Lists the models that every account can call. Pass a name to run_inference as endpoint_id. list_endpoints also includes the models of this account.',
  operation: listInferenceModels,
  input: Type.Object(
    {
      category,
      include_readiness,
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: DEFAULT_MODELS })),
      cursor,
    },
    { additionalProperties: false },
  ),
  annotations: READS,
  inputsOf: ({ limit = DEFAULT_MODELS, ...query }) => ({ query: { ...query, limit } }),
})
