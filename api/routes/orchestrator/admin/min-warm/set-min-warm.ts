import * as warmPinRepository from '../../../../../db/repositories/nodes/warm-pins.ts'
import { KeptWarm, SetMinWarm } from '../../../../../schemas/admin.ts'
import { route } from '../../../../http/route.ts'
import { endpointNotFound, params } from '../endpoint.ts'
import { path, present } from './present.ts'

export const setMinWarm = route({
  operationId: 'setMinWarm',
  summary: 'Keep the model of an endpoint loaded on so many nodes, whatever else asks for their memory',
  method: 'PUT',
  path,
  auth: 'operations-key',
  params,
  body: SetMinWarm,
  success: { status: 200, schema: KeptWarm },
  errors: ['not_found'],

  async handler({ params: { endpoint_id }, body: { min_warm } }, services) {
    if (!(await warmPinRepository.setMinWarm(services.db, endpoint_id, min_warm))) throw endpointNotFound()
    return present(services, endpoint_id, await services.warmPins.keep({ wait: true }))
  },
})
