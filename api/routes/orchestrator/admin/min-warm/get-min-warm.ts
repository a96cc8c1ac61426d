import { KeptWarm } from '../../../../../schemas/admin.ts'
import { route } from '../../../../http/route.ts'
import { params } from '../endpoint.ts'
import { path, present } from './present.ts'

export const getMinWarm = route({
  operationId: 'getMinWarm',
  summary: "Get the number of nodes that keep an endpoint's model loaded, and which nodes have it",
  method: 'GET',
  path,
  auth: 'operations-key',
  params,
  success: { status: 200, schema: KeptWarm },
  errors: ['not_found'],
  handler: async ({ params: { endpoint_id } }, services) =>
    present(services, endpoint_id, (await services.copyPlanner.preview()).plan),
})
