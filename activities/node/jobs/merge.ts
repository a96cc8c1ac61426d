import { mergeUnderLease } from '../../../node-runtime/merge/merge-attempt.ts'
import type { MergeClaim } from '../../../schemas/training-merge.ts'
import type { NodeDeps } from '../deps.ts'
import { attemptJob } from './attempt-job.ts'

interface MergeInput {
  jobId: string
}

/** The activities of the queue `merge.cpu`. */
export const createMergeActivities = (deps: NodeDeps) => ({
  /**
   * Makes one attempt at a merge, from the start. Safe to repeat because each attempt is fenced by its own lease: the
   * platform rejects the results of an earlier one.
   */
  merge: ({ jobId }: MergeInput): Promise<void> =>
    attemptJob<MergeClaim>(deps, jobId, (attempt) => mergeUnderLease(deps, attempt)),
})
export type MergeActivities = ReturnType<typeof createMergeActivities>
