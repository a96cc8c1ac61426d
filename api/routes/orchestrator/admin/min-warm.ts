import Type from 'typebox'
import { findEndpoint } from '../../../../db/repositories/endpoints/endpoints.ts'
import { listWarmPins, setMinWarm as writeMinWarm } from '../../../../db/repositories/nodes/warm-pins.ts'
import { ApiError } from '../../../../domain/errors.ts'
import type { PinPlan } from '../../../../domain/placement/warm-pins.ts'
import { KeptWarm, SetMinWarm } from '../../../../schemas/admin.ts'
import { Uuid } from '../../../../schemas/common.ts'
import { route } from '../../../http/route.ts'
import type { Services } from '../../../services.ts'

const params = Type.Object({ endpoint_id: Uuid })
const path = '/admin/endpoints/{endpoint_id}/min-warm'
const LONGEST_WHY = 1_000

export const getMinWarm = route({
  operationId: 'getMinWarm',
  summary: 'Read on how many nodes the model of an endpoint is kept loaded, and on which',
  method: 'GET',
  path,
  auth: 'operations-key',
  params,
  success: { status: 200, schema: KeptWarm },
  errors: ['not_found'],
  handler: async ({ params: { endpoint_id } }, services) =>
    present(services, endpoint_id, await services.warmPins.look()),
})

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
    if (!(await writeMinWarm(services.db, endpoint_id, min_warm))) throw noEndpoint()
    return present(services, endpoint_id, await services.warmPins.keep({ wait: true }))
  },
})

async function present({ db }: Services, endpointId: string, plan: PinPlan | undefined) {
  const endpoint = await findEndpoint(db, endpointId)
  if (!endpoint) throw noEndpoint()
  const { id, name, model_key, min_warm } = endpoint
  const pins = await listWarmPins(db)
  const nodes = pins.filter((pin) => pin.model_key === model_key).map(({ node_id }) => node_id)
  const missing = plan?.short.get(model_key)?.slice(0, LONGEST_WHY) ?? null
  return { endpoint_id: id, name, model_key, min_warm, nodes, missing }
}

const noEndpoint = () => new ApiError('not_found', 'there is no endpoint with this id')
