import * as endpointRepository from '../../../../../db/repositories/endpoints/endpoints.ts'
import * as warmPinRepository from '../../../../../db/repositories/nodes/warm-pins.ts'
import { invalid } from '../../../../../domain/errors.ts'
import { TOOL_PROFILE } from '../../../../../domain/tools/catalog.ts'
import { KeptWarm, SetMinWarm } from '../../../../../schemas/admin.ts'
import { audit } from '../../../../audit.ts'
import { route } from '../../../../http/route.ts'
import { endpointNotFound, params } from '../endpoint.ts'
import { path, present } from './present.ts'

export const setMinWarm = route({
  operationId: 'setMinWarm',
  summary: "Keep an endpoint's model loaded on a number of nodes, even if other models need their memory",
  method: 'PUT',
  path,
  auth: 'operations-key',
  params,
  body: SetMinWarm,
  success: { status: 200, schema: KeptWarm },
  errors: ['not_found'],

  async handler({ params: { endpoint_id }, body: { min_warm } }, services) {
    const endpoint = await endpointRepository.findEndpointFacts(services.db, endpoint_id)
    if (endpoint?.runtime_profile === TOOL_PROFILE)
      throw invalid(['body', 'min_warm'], 'a tool starts for each request, so it is never kept loaded')
    await services.db.transaction().execute(async (trx) => {
      if (!endpoint || !(await warmPinRepository.setMinWarm(trx, endpoint_id, min_warm)))
        throw endpointNotFound()
      await audit(trx, {
        action: 'setMinWarm',
        subject: { kind: 'endpoint', id: endpoint_id },
        accountId: endpoint.account_id,
        before: { min_warm: endpoint.min_warm },
        after: { min_warm },
      })
    })
    return present(services, endpoint_id, await services.copyPlanner.replan())
  },
})
