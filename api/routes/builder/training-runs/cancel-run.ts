import type { Transaction } from 'kysely'
import * as jobEndingRepository from '../../../../db/repositories/training/endings.ts'
import type { JobFacts } from '../../../../db/repositories/training/jobs.ts'
import type { Database } from '../../../../db/tables.ts'
import { WORKFLOW_ID } from '../../../../workflows/contract/policy.ts'
import { emit } from '../../../events.ts'
import type { Services } from '../../../services.ts'

interface Cancellation {
  /** Additional text for the event. */
  detail?: string
  /** A step that commits in the same transaction as the run's end. */
  inTransaction?: (trx: Transaction<Database>) => Promise<void>
}

/** Cancels an open run or merge; returns `undefined` if it had already ended. */
export async function cancelRun(
  { db, now, links, temporal, log }: Pick<Services, 'db' | 'now' | 'links' | 'temporal' | 'log'>,
  id: string,
  { detail, inTransaction }: Cancellation = {},
): Promise<JobFacts | undefined> {
  const ended = await db.transaction().execute(async (trx) => {
    const ending = { status: 'cancelled', ...(detail !== undefined && { detail }) } as const
    const run = await jobEndingRepository.endRun(trx, id, ending, now())
    if (run) await inTransaction?.(trx)
    return run
  })
  if (!ended) return undefined
  // The row is already updated; these calls only make the node and the workflow stop sooner.
  links.cancelJob(id)
  temporal.workflow
    .getHandle(WORKFLOW_ID.job(id))
    .cancel()
    .catch((err: unknown) => emit(log, 'job.cancel_failed', { err }))
  return ended
}
