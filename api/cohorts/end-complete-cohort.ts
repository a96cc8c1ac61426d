import { endCohort } from '../../db/repositories/cohorts/endings.ts'
import { emit } from '../events.ts'
import type { Services } from '../services.ts'

/**
 * Ends a cohort whose stages have all succeeded, so clients see its result before the workflow learns of the last
 * stage. Never throws: the workflow ends every cohort that is still open, and removes every cohort's files.
 */
export async function endCompleteCohort(
  { db, now, log }: Pick<Services, 'db' | 'now' | 'log'>,
  cohortId: string,
): Promise<void> {
  try {
    await db
      .transaction()
      .execute((trx) => endCohort(trx, cohortId, { status: 'succeeded' }, now(), { onlyComplete: true }))
  } catch (err) {
    emit(log, 'cohort.end_failed', { err, cohort_id: cohortId })
  }
}
