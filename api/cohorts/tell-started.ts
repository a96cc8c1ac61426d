import { WorkflowNotFoundError } from '@temporalio/client'
import type { CohortStageRow } from '../../db/tables/cohorts.ts'
import { stageStarted } from '../../workflows/contract/messages.ts'
import { WORKFLOW_ID } from '../../workflows/contract/policy.ts'
import { emit } from '../events.ts'
import type { Services } from '../services.ts'

const RPC_TIMEOUT_MS = 3_000

/**
 * Notifies a cohort's workflow that a stage holds its slot, so its consumers can start loading their models, or that
 * the stage has received its values. Never throws: without the signal, consumers start when the stage has ended.
 */
export async function tellStageStarted(
  { temporal, log }: Pick<Services, 'temporal' | 'log'>,
  { cohort_id, name }: Pick<CohortStageRow, 'cohort_id' | 'name'>,
  { isRunning = false } = {},
): Promise<void> {
  try {
    await temporal.withDeadline(Date.now() + RPC_TIMEOUT_MS, () =>
      temporal.workflow.getHandle(WORKFLOW_ID.cohort(cohort_id)).signal(stageStarted, name, isRunning),
    )
  } catch (err) {
    if (err instanceof WorkflowNotFoundError) return
    emit(log, 'cohort.signal_failed', { err, cohort_id })
  }
}
