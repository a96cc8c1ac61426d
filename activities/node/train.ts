import { cancellationSignal } from '@temporalio/activity'
import { trainUnderLease } from '../../node-runtime/training/training-attempt.ts'
import type { JobClaim } from '../../schemas/lease.ts'
import { beat } from './beat.ts'
import type { NodeDeps } from './deps.ts'
import { failureOf, LEASE_S } from './job-failure.ts'

export interface TrainInput {
  jobId: string
}

/** Work of the queues `train.cpu` and `train.gpu`. */
export const createTrainActivities = (deps: NodeDeps) => ({
  /**
   * One attempt at a job, from its last checkpoint. Safe to repeat because each attempt is fenced by its own lease:
   * what another one still does is refused.
   */
  async train({ jobId }: TrainInput): Promise<void> {
    using _alive = beat()
    using work = deps.work.begin(jobId, cancellationSignal())
    try {
      const claim = await deps.control.claimJob<JobClaim>(
        jobId,
        { lease_s: LEASE_S },
        { signal: work.signal },
      )
      deps.log.info({ job_id: jobId, attempt: claim.attempt }, 'training')
      await trainUnderLease(deps, {
        claim,
        report: deps.spool.job(jobId, claim.attempt),
        cancelled: work.signal,
        leaseS: LEASE_S,
      })
    } catch (err) {
      const failure = failureOf(err)
      deps.log.info({ job_id: jobId, code: failure.type }, 'training ended without a result')
      // An activity that was cancelled says so; one whose node stops, or that the link cancelled, fails with a code.
      const { aborted, reason } = cancellationSignal()
      if (aborted && failure.type !== 'drained') throw reason
      throw failure
    }
  },
})
export type TrainActivities = ReturnType<typeof createTrainActivities>
