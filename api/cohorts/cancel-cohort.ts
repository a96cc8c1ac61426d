import type { Transaction } from 'kysely'
import { endCohort } from '../../db/repositories/cohorts/endings.ts'
import type { Database } from '../../db/tables.ts'
import { CANCELLED_BY_CALLER } from '../../domain/inference-task.ts'
import { WORKFLOW_ID } from '../../workflows/contract/policy.ts'
import { emit } from '../events.ts'
import type { Services } from '../services.ts'

interface CancelRequest {
  message?: string
  /** The caller's user, if the request names one. */
  userId?: string | undefined
  inTransaction?: (trx: Transaction<Database>) => Promise<void>
}

/**
 * Cancels a cohort for its owner or an operator. Ending its rows first stops the work of its stages; the workflow is
 * cancelled after that. Returns whether the cohort was still open.
 */
export async function cancelCohort(
  { db, now, temporal, log }: Pick<Services, 'db' | 'now' | 'temporal' | 'log'>,
  cohortId: string,
  { message = CANCELLED_BY_CALLER, userId, inTransaction }: CancelRequest = {},
): Promise<boolean> {
  const fault = { code: 'cancelled', message }
  const request = userId ? { user_id: userId } : {}
  const wasOpen = await db.transaction().execute(async (trx) => {
    const ending = { status: 'cancelled' as const, fault, request }
    const ended = await endCohort(trx, cohortId, ending, now(), { isRecalled: true })
    if (ended) await inTransaction?.(trx)
    return ended
  })
  if (!wasOpen) return false
  // If Temporal is unavailable, the workflow finds the ended rows on its own later.
  temporal.workflow
    .getHandle(WORKFLOW_ID.cohort(cohortId))
    .cancel()
    .catch((err: unknown) => emit(log, 'cohort.cancel_failed', { err, cohort_id: cohortId }))
  return true
}
