import type { Transaction } from 'kysely'
import { endCohort } from '../../db/repositories/cohorts/endings.ts'
import type { Database } from '../../db/tables.ts'
import { CANCELLED_BY_CALLER } from '../../domain/inference-task.ts'
import { WORKFLOW_ID } from '../../workflows/contract/policy.ts'
import { emit } from '../events.ts'
import type { Services } from '../services.ts'

/**
 * Ends a cohort at the request of its owner or of an operator: first its rows, which ends the work of its stages, then its
 * workflow. Returns whether it was still open.
 */
export async function cancelCohort(
  { db, now, temporal, log }: Pick<Services, 'db' | 'now' | 'temporal' | 'log'>,
  cohortId: string,
  message: string = CANCELLED_BY_CALLER,
  inTransaction?: (trx: Transaction<Database>) => Promise<void>,
): Promise<boolean> {
  const fault = { code: 'cancelled', message }
  const wasOpen = await db.transaction().execute(async (trx) => {
    const ended = await endCohort(trx, cohortId, { status: 'cancelled', fault }, now(), { isRecalled: true })
    if (ended) await inTransaction?.(trx)
    return ended
  })
  if (!wasOpen) return false
  // When Temporal is away, the workflow finds the ended rows by itself.
  temporal.workflow
    .getHandle(WORKFLOW_ID.cohort(cohortId))
    .cancel()
    .catch((err: unknown) => emit(log, 'cohort.cancel_failed', { err, cohort_id: cohortId }))
  return true
}
