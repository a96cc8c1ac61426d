import { cancellationSignal } from '@temporalio/activity'
import { mergeUnderLease } from '../../node-runtime/merge/merge-attempt.ts'
import type { MergeClaim } from '../../schemas/training-merge.ts'
import { beat } from './beat.ts'
import type { NodeDeps } from './deps.ts'
import { failureOf, LEASE_S } from './job-failure.ts'

interface MergeInput {
  jobId: string
}

/** Work of the queue `merge.cpu`. */
export const createMergeActivities = (deps: NodeDeps) => ({
  /**
   * One attempt at a merge, from its beginning. Safe to repeat because each attempt is fenced by its own lease: what
   * another one still does is refused.
   */
  async merge({ jobId }: MergeInput): Promise<void> {
    using _alive = beat()
    using work = deps.work.begin(jobId, cancellationSignal())
    try {
      const claim = await deps.control.claimJob<MergeClaim>(
        jobId,
        { lease_s: LEASE_S },
        { signal: work.signal },
      )
      deps.log.info({ job_id: jobId, attempt: claim.attempt }, 'merging')
      await mergeUnderLease(deps, {
        claim,
        report: deps.spool.job(jobId, claim.attempt),
        cancelled: work.signal,
        leaseS: LEASE_S,
      })
    } catch (err) {
      const failure = failureOf(err)
      deps.log.info({ job_id: jobId, code: failure.type }, 'a merge ended without a result')
      // An activity that was cancelled says so; one whose node stops, or that the link cancelled, fails with a code.
      const { aborted, reason } = cancellationSignal()
      if (aborted && failure.type !== 'drained') throw reason
      throw failure
    }
  },
})
export type MergeActivities = ReturnType<typeof createMergeActivities>
