import Type, { type Static } from 'typebox'
import { Endpoint, EndpointList, EndpointQuery } from '../../../schemas/endpoint.ts'
import { listEndpoints } from '../../routes/builder/endpoints/list-endpoints.ts'
import { operationTool, READS } from '../operation-tool.ts'

const { include_readiness, task_type, search, source, owner, limit, offset } = EndpointQuery.properties

/** Endpoints without their schemas: a schema may be a megabyte, and a page may have a hundred endpoints. */
const ListedEndpoints = Type.Object({
  ...Type.Omit(EndpointList, ['endpoints']).properties,
  endpoints: Type.Array(
    Type.Omit(Endpoint, ['input_schema', 'output_schema', 'example_input', 'example_output', 'examples']),
  ),
})

function withoutSchemas(endpoint: Endpoint): Static<typeof ListedEndpoints>['endpoints'][number] {
  const {
    input_schema: _i,
    output_schema: _o,
    example_input: _e,
    example_output: _a,
    examples: _x,
    ...rest
  } = endpoint
  return rest
}

export const listEndpointsTool = operationTool({
  name: 'list_endpoints',
  title: 'List endpoints',
  description:
    'Lists the models that can be called now: the endpoints of this account and the public ones. get_endpoint returns the input schema and examples of an endpoint. With include_readiness the list also says whether each model is loaded.',
  operation: listEndpoints,
  input: Type.Object(
    { include_readiness, task_type, search, source, owner, limit, offset },
    { additionalProperties: false },
  ),
  annotations: READS,
  inputsOf: (query) => ({ query }),
  output: ListedEndpoints,
  present: ({ endpoints, ...page }: Static<typeof EndpointList>) => ({
    ...page,
    endpoints: endpoints.map(withoutSchemas),
  }),
})
