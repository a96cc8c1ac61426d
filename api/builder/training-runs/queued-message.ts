import type { Transaction } from 'kysely'
import { listNodeStandings } from '../../../db/repositories/waiting-jobs.ts'
import type { Database } from '../../../db/tables.ts'
import type { TrainingRunRow } from '../../../db/tables/training.ts'
import { whyWaiting } from '../../../domain/waiting.ts'

/** That a job is queued, and that it waits for a node that is not there. */
export async function queuedMessage(
  trx: Transaction<Database>,
  job: Pick<TrainingRunRow, 'account_id' | 'task_queue'>,
  queued: string,
): Promise<string> {
  const reason = whyWaiting(await listNodeStandings(trx), job)
  return reason === null
    ? queued
    : `${queued}; ${reason}. It waits for one until it is cancelled, and it holds a place of the quota meanwhile`
}
