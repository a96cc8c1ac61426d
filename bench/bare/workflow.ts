import { proxyActivities, proxyLocalActivities } from '@temporalio/workflow'
import type { place, work } from './activities.ts'

const local = proxyLocalActivities<{ place: typeof place }>({ startToCloseTimeout: '10s' })

/** The empty steps of a task whose model is loaded: one local activity, and one on another worker. */
export async function bare({ id }: { id: string }): Promise<void> {
  const { taskQueue } = await local.place({ id })
  const node = proxyActivities<{ work: typeof work }>({ taskQueue, startToCloseTimeout: '1 minute' })
  await node.work({ id })
}
