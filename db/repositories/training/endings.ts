import type { Transaction } from 'kysely'
import { storable } from '../../../domain/storable-text.ts'
import type { Database } from '../../tables.ts'
import { endJobInvocation } from '../actions/invocations.ts'
import { takeLease } from '../nodes/leases.ts'
import { insertEvents } from '../webhooks/events.ts'
import { insertJobEvents } from './job-records.ts'
import { type JobFacts, lockJob, moveJob } from './jobs.ts'

/** The end of a run. */
export interface RunEnding {
  status: 'completed' | 'failed' | 'cancelled'
  /** The error message that callers of a failed run see. */
  errorMessage?: string
  /** Additional text of the event. */
  detail?: string
}

/**
 * Ends a run: status, event, notification and the end of its lease in one transaction. `undefined` if it had already
 * ended, which makes this safe to repeat.
 */
export async function endRun(
  trx: Transaction<Database>,
  id: string,
  { status, errorMessage, detail }: RunEnding,
  now: Date,
): Promise<JobFacts | undefined> {
  await lockJob(trx, id)
  const run = await moveJob(trx, id, status, {
    completed_at: now,
    error_message: status === 'failed' && errorMessage !== undefined ? storable(errorMessage) : null,
  })
  if (!run) return undefined
  await takeLease(trx, 'job', id, 'revoked')
  await insertJobEvents(trx, [{ jobId: id, type: status, ...(detail !== undefined && { detail }) }], now)
  await endJobInvocation(trx, id, status, now)
  const object = run.job_type === 'merge' ? 'training.merge' : 'training.run'
  await insertEvents(
    trx,
    [
      {
        accountId: run.account_id,
        type: `${object}.${status}`,
        resource: { id, object, status },
        resourceUrl: `/api/builder/v1/training/runs/${id}`,
      },
    ],
    now,
  )
  return run
}
