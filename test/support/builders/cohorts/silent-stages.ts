import { cancellationSignal } from '@temporalio/activity'
import { sendHeartbeats } from '../../../../activities/node/heartbeats.ts'
import type { NodeActivities } from '../../../../activities/node/index.ts'
import { autoRenewLease } from '../../../../node-runtime/control/lease-keeper.ts'
import type { StageClaim } from '../../../../schemas/cohorts/stage.ts'
import type { WorldNode } from '../../servers/worlds/inference-world.ts'

const LEASE_S = 30

/**
 * Makes a node claim these stages and renew their leases, but do nothing else until Temporal cancels them. Like a stuck
 * node, it looks alive but neither runs the models nor takes part in hand-overs.
 */
export const stallStages =
  (
    node: () => WorldNode,
    { status, isStuck }: { status: 'waiting' | 'running'; isStuck: (name: string) => boolean },
  ) =>
  (activities: NodeActivities): NodeActivities => ({
    ...activities,
    async runStage(stage) {
      const { control } = node().parts
      const signal = cancellationSignal()
      const { cohortId, stageId } = stage
      const claim = await control.claimStage<StageClaim>(
        cohortId,
        stageId,
        { lease_s: LEASE_S },
        { signal, turn: cohortId },
      )
      if (!isStuck(claim.name)) return activities.runStage(stage)
      using _alive = sendHeartbeats()
      using lease = autoRenewLease(control, claim.lease_token, LEASE_S)
      lease.report({ status, progress_pct: 0, metadata: {} })
      await new Promise((_resolve, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
      )
    },
  })
