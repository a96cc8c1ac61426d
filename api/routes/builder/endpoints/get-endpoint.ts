import { Endpoint } from '../../../../schemas/endpoint.ts'
import { route } from '../../../http/route.ts'
import { usableEndpoint } from './access.ts'
import { EndpointParams } from './params.ts'
import { presentEndpoint } from './present.ts'
import { readinessOf } from './readiness.ts'

export const getEndpoint = route({
  operationId: 'getEndpoint',
  summary: 'Read an endpoint, by id or by name',
  method: 'GET',
  path: '/endpoints/{endpoint_id}',
  auth: 'api-key',
  params: EndpointParams,
  success: { status: 200, schema: Endpoint },
  errors: ['not_found', 'forbidden'],

  async handler({ caller: { accountId }, params: { endpoint_id } }, services) {
    const row = await usableEndpoint(services.db, accountId, endpoint_id)
    const readiness = await readinessOf(services, [row], accountId)
    return presentEndpoint(row, { accountId, config: services.config, readiness: readiness(row) })
  },
})
