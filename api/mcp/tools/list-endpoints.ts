import Type from 'typebox'
import { EndpointQuery } from '../../../schemas/endpoint.ts'
import { listEndpoints } from '../../routes/builder/endpoints/list-endpoints.ts'
import { operationTool, READS } from '../operation-tool.ts'

const { include_readiness, task_type, search, source, owner, limit, offset } = EndpointQuery.properties

export const listEndpointsTool = operationTool({
  name: 'list_endpoints',
  title: 'List endpoints',
  description:
    'Lists the models that can be asked now: the endpoints of this account and the public ones. Each has the schema of its input and an example. With include_readiness it also says whether the model is loaded.',
  operation: listEndpoints,
  input: Type.Object(
    { include_readiness, task_type, search, source, owner, limit, offset },
    { additionalProperties: false },
  ),
  annotations: READS,
  inputsOf: (query) => ({ query }),
})
