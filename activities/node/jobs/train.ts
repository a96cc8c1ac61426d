import { trainUnderLease } from '../../../node-runtime/training/training-attempt.ts'
import type { JobClaim } from '../../../schemas/nodes/lease.ts'
import type { NodeDeps } from '../deps.ts'
import { attemptJob } from './attempt-job.ts'

export interface TrainInput {
  jobId: string
}

/** The activities of the queues `train.cpu` and `train.gpu`. */
export const createTrainActivities = (deps: NodeDeps) => ({
  /**
   * Makes one attempt at a job, from its last checkpoint. Safe to repeat because each attempt is fenced by its own
   * lease: the platform rejects the results of an earlier one.
   */
  train: ({ jobId }: TrainInput): Promise<void> =>
    attemptJob<JobClaim>(deps, jobId, (attempt) => trainUnderLease(deps, attempt)),
})
export type TrainActivities = ReturnType<typeof createTrainActivities>
