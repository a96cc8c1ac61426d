import { type NodeSnapshot, warmthOf } from '../../../../domain/placement/node-snapshot.ts'
import { InferenceHealth } from '../../../../schemas/health.ts'
import { reply } from '../../../http/reply.ts'
import { route } from '../../../http/route.ts'

export const getInferenceHealth = route({
  operationId: 'getInferenceHealth',
  summary: 'Check whether inference is available, and with which resources',
  method: 'GET',
  path: '/inference/health',
  auth: 'none',
  success: { status: 200, schema: InferenceHealth },
  also: { 503: InferenceHealth },

  async handler(_request, { health, links, killSwitch }) {
    const seen = await health.check()
    const nodes = links.snapshot()
    // Without a node, work is accepted and stored but not done.
    const status = seen.status === 'ok' && nodes.length === 0 ? 'degraded' : seen.status
    return reply(status === 'unavailable' ? 503 : 200, {
      ...seen,
      status,
      nodes: { linked: nodes.length, draining: nodes.filter(({ draining }) => draining).length },
      models: countModels(nodes),
      accepts_work: !killSwitch.active,
    })
  },
})

function countModels(nodes: readonly NodeSnapshot[]): { warm: number; cached: number } {
  const keys = { warm: new Set<string>(), cached: new Set<string>() }
  for (const model of nodes.flatMap(({ models }) => models)) {
    const warmth = warmthOf(model)
    if (warmth !== 'cold') keys[warmth].add(model.model_key)
  }
  return { warm: keys.warm.size, cached: keys.cached.difference(keys.warm).size }
}
