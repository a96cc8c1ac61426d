import * as cohortHealthRepository from '../../../../db/repositories/cohorts/health.ts'
import * as nodeLoadRepository from '../../../../db/repositories/nodes/loads.ts'
import { serves } from '../../../../domain/placement/node-snapshot.ts'
import { CohortHealth } from '../../../../schemas/cohorts/health.ts'
import { route } from '../../../http/route.ts'

export const getCohortHealth = route({
  operationId: 'getCohortHealth',
  summary: 'Check whether cohorts can run, and what they are waiting for',
  method: 'GET',
  path: '/cohorts/health',
  auth: 'cohort',
  success: { status: 200, schema: CohortHealth },

  async handler({ caller: { accountId } }, { db, health, killSwitch, now }) {
    const [seen, nodes, counted] = await Promise.all([
      health.check(),
      nodeLoadRepository.readSnapshots(db),
      cohortHealthRepository.countCohorts(db, accountId),
    ])
    const online = nodes.filter((node) => serves(node, accountId) && !node.draining)
    const isTemporalUp = seen.temporal.status === 'ok'
    const { reachable, ...counts } = counted
    const reasons = [
      ...(killSwitch.active ? ['an operator has stopped new work'] : []),
      ...(isTemporalUp ? [] : ['Temporal is down: runs are accepted, and start when it is back']),
      ...(online.length > 0 ? [] : ['no node that works for this account is connected']),
      ...(counts.cohorts.stalled > 0 ? [`cohorts waiting for a node: ${counts.cohorts.stalled}`] : []),
    ]
    return {
      status: killSwitch.active
        ? ('disabled' as const)
        : reasons.length > 0
          ? ('degraded' as const)
          : ('ok' as const),
      reasons,
      checked_at: now().toISOString(),
      temporal: isTemporalUp ? ('ok' as const) : ('down' as const),
      nodes: { online: online.length, edge_capable: online.length, direct_reachable: reachable },
      ...counts,
      kill_switch: { active: killSwitch.active, reason: killSwitch.reason },
    }
  },
})
