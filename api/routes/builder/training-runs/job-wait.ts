import type { Kysely } from 'kysely'
import * as waitingJobRepository from '../../../../db/repositories/training/waiting.ts'
import type { Database } from '../../../../db/tables.ts'
import type { JobRow } from '../../../../db/tables/training.ts'
import { waitingReason } from '../../../../domain/waiting.ts'

/** The reason why a new job is waiting for a node; null if a suitable node is online, busy or not. */
export interface JobWait {
  /** Columns of the run's row. */
  readonly columns: Pick<JobRow, 'waiting_reason' | 'waiting_since'>
  readonly reason: string | null
  /** Lines for the job's log. */
  readonly notes: readonly string[]
}

export async function jobWaitOf(
  db: Kysely<Database>,
  job: Pick<JobRow, 'account_id' | 'task_queue'>,
  now: Date,
): Promise<JobWait> {
  const reason = waitingReason(await waitingJobRepository.listNodeEligibility(db), job)
  return {
    columns: { waiting_reason: reason, waiting_since: reason === null ? null : now },
    reason,
    notes: reason === null ? [] : [`Waiting: ${reason}.`],
  }
}

/** The largest number of ignored fields in the message; the log lists all of them. */
const MAX_REPORTED = 10

/** Builds a queued job's message: whether the job is waiting for a node, and which fields have no effect. */
export function queuedMessage({ reason }: JobWait, queued: string, ignored: readonly string[] = []): string {
  const waits =
    reason === null
      ? queued
      : `${queued}; ${reason}. It waits until there is one or it is cancelled, and counts toward the quota in the meantime`
  if (ignored.length === 0) return waits
  const more = ignored.length > MAX_REPORTED ? [`${ignored.length - MAX_REPORTED} more: see its log.`] : []
  return [`${waits}.`, ...ignored.slice(0, MAX_REPORTED), ...more].join(' ')
}
