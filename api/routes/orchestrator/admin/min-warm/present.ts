import * as endpointRepository from '../../../../../db/repositories/endpoints/endpoints.ts'
import * as warmPinRepository from '../../../../../db/repositories/nodes/warm-pins.ts'
import type { PinPlan } from '../../../../../domain/placement/warm-pins.ts'
import type { Services } from '../../../../services.ts'
import { endpointNotFound } from '../endpoint.ts'

export const path = '/admin/endpoints/{endpoint_id}/min-warm'

const MAX_WHY = 1_000

export async function present({ db }: Services, endpointId: string, plan: PinPlan | undefined) {
  const endpoint = await endpointRepository.findEndpointFacts(db, endpointId)
  if (!endpoint) throw endpointNotFound()
  const { id, name, model_key, min_warm } = endpoint
  const pins = await warmPinRepository.listWarmPins(db)
  const nodes = pins.filter((pin) => pin.model_key === model_key).map(({ node_id }) => node_id)
  const missing = plan?.short.get(model_key)?.slice(0, MAX_WHY) ?? null
  return { endpoint_id: id, name, model_key, min_warm, nodes, missing }
}
