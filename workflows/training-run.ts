import { ActivityCancellationType, proxyActivities } from '@temporalio/workflow'
import type { TrainActivities } from '../activities/node/jobs/train.ts'
import { POLICY } from './contract/policy.ts'
import { type JobInput, runJob } from './job.ts'

/** A training run: attempts on nodes until one has a result. */
export async function trainingRun(input: JobInput): Promise<void> {
  await runJob(input, ({ priority, accountId, modelConfigId }, offer) => {
    const { train } = proxyActivities<TrainActivities>({
      ...POLICY.train,
      ...offer,
      // The row shows `cancelled` at once; the node ends its processes by itself.
      cancellationType: ActivityCancellationType.TRY_CANCEL,
      priority: { priorityKey: priority, fairnessKey: accountId },
      summary: `trains ${modelConfigId}`,
    })
    return train({ jobId: input.jobId })
  })
}
