import * as nodeLoadRepository from '../../../../db/repositories/nodes/loads.ts'
import * as nodeRepository from '../../../../db/repositories/nodes/nodes.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { place } from '../../../../domain/placement/placement.ts'
import { Placements, PlacementsQuery } from '../../../../schemas/operations.ts'
import { route } from '../../../http/route.ts'

export const explainPlacement = route({
  operationId: 'explainPlacement',
  summary: 'Explain where work for a model would run now, with the reason for each node',
  method: 'GET',
  path: '/admin/placements',
  auth: 'operations-key',
  query: PlacementsQuery,
  success: { status: 200, schema: Placements },
  errors: ['not_found'],

  async handler({ query: { model: model_key, account_id = null } }, { db, now }) {
    const needs = await nodeLoadRepository.findModelNeeds(db, model_key)
    if (!needs) throw new ApiError('not_found', 'there is no model with this key')
    const { runtime_profile, memory_mb } = needs
    const snapshots = await nodeLoadRepository.readSnapshots(db)
    const need = { ...needs, model_key, account_id, now: now().getTime() }
    const { chosen = null, explain } = place(snapshots, need, Math.random)
    const verdicts = explain().toSorted((a, b) => (b.score ?? -1) - (a.score ?? -1))
    const names = await nodeRepository.nodeNames(
      db,
      verdicts.map(({ node_id }) => node_id),
    )
    return {
      model_key,
      runtime_profile,
      memory_mb,
      chosen,
      nodes: verdicts.map(({ node_id, score = null, reason }) => {
        const { models = [] } = snapshots.find((snapshot) => snapshot.node_id === node_id) ?? {}
        const fault = models.find((model) => model.model_key === model_key)?.engine_fault
        return {
          node_id,
          name: names.get(node_id) ?? node_id,
          score,
          reason,
          ...(fault && { engine_fault: fault }),
        }
      }),
    }
  },
})
