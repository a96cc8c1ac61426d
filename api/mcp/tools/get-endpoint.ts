import Type from 'typebox'
import { getEndpoint } from '../../routes/builder/endpoints/get-endpoint.ts'
import { EndpointParams } from '../../routes/builder/endpoints/params.ts'
import { operationTool, READS } from '../operation-tool.ts'

const { endpoint_id } = EndpointParams.properties

export const getEndpointTool = operationTool({
  name: 'get_endpoint',
  title: 'Get an endpoint',
  description:
    'Returns one endpoint by id or name, with its input schema, an example, its price and whether its model is loaded.',
  operation: getEndpoint,
  input: Type.Object({ endpoint_id }, { additionalProperties: false }),
  annotations: READS,
  inputsOf: (params) => ({ params }),
})
