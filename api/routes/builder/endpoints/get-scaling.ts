import { Scaling } from '../../../../schemas/scaling.ts'
import { route } from '../../../http/route.ts'
import { assertOwn, usableEndpointFacts } from './access.ts'
import { EndpointParams } from './params.ts'
import { presentScaling } from './present-scaling.ts'

export const getScaling = route({
  operationId: 'getScaling',
  summary: "Get the number of copies of an endpoint's model, and why",
  method: 'GET',
  path: '/endpoints/{endpoint_id}/scaling',
  auth: 'api-key',
  params: EndpointParams,
  success: { status: 200, schema: Scaling },
  errors: ['not_found', 'forbidden'],

  async handler({ caller: { accountId }, params: { endpoint_id } }, services) {
    const endpoint = await usableEndpointFacts(services.db, accountId, endpoint_id)
    assertOwn(endpoint, accountId)
    return presentScaling(services, endpoint.id)
  },
})
