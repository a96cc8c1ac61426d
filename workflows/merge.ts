import { ActivityCancellationType, proxyActivities } from '@temporalio/workflow'
import type { MergeActivities } from '../activities/node/jobs/merge.ts'
import { POLICY } from './contract/policy.ts'
import { type JobInput, runJob } from './job.ts'

/** A merge works like a training run, except that every attempt starts from scratch. */
export async function merge(input: JobInput): Promise<void> {
  await runJob(input, ({ priority, accountId, modelConfigId }, offer) => {
    const activities = proxyActivities<MergeActivities>({
      ...POLICY.merge,
      ...offer,
      cancellationType: ActivityCancellationType.TRY_CANCEL,
      priority: { priorityKey: priority, fairnessKey: accountId },
      summary: `merges models of ${modelConfigId}`,
    })
    return activities.merge({ jobId: input.jobId })
  })
}
