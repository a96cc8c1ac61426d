import { WorkflowNotFoundError } from '@temporalio/client'
import { expireEdges, findOverdueCohorts } from '../../../db/repositories/cohorts/edge-retries.ts'
import {
  findOverdueStages,
  type OverdueStage,
  takeOverdueStage,
} from '../../../db/repositories/cohorts/overdue.ts'
import { stageOverdue } from '../../../workflows/contract/messages.ts'
import { WORKFLOW_ID } from '../../../workflows/contract/policy.ts'
import type { ControlDeps } from '../deps.ts'
import { emit } from '../events.ts'

const RPC_TIMEOUT_MS = 3_000

export const createOverdueActivities = ({ db, temporal, log }: ControlDeps) => ({
  /**
   * Ends overdue hand-over attempts in all cohorts, and overdue stage attempts that their nodes have not ended. Safe to
   * repeat because an attempt ends once, and a workflow ignores the signal for an earlier attempt.
   */
  async endOverdueWork(): Promise<{ cohorts: number; stages: number }> {
    /** A failure in one cohort does not stop the others; the next pass tries again. */
    const at = (cohort_id: string, work: () => Promise<unknown>) =>
      work().catch((err: unknown) => emit(log, 'cohort.overdue_failed', { err, cohort_id }))
    const cohorts = await findOverdueCohorts(db)
    for (const id of cohorts) await at(id, () => db.transaction().execute((trx) => expireEdges(trx, id)))
    const stages = await findOverdueStages(db)
    for (const { id, cohort_id } of stages)
      await at(cohort_id, async () => {
        const taken = await db.transaction().execute((trx) => takeOverdueStage(trx, id))
        if (taken) await notifyWorkflow(temporal, taken)
      })
    return { cohorts: cohorts.length, stages: stages.length }
  },
})

async function notifyWorkflow(temporal: ControlDeps['temporal'], stage: OverdueStage): Promise<void> {
  const { cohort_id, name, attempt, called_at } = stage
  try {
    await temporal.withDeadline(Date.now() + RPC_TIMEOUT_MS, () =>
      temporal.workflow
        .getHandle(WORKFLOW_ID.cohort(cohort_id))
        .signal(stageOverdue, name, attempt, called_at?.getTime()),
    )
  } catch (err) {
    if (!(err instanceof WorkflowNotFoundError)) throw err
  }
}
