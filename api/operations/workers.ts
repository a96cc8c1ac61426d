import type { Client } from '@temporalio/client'
import type { WorkerView } from '../../schemas/platform-views.ts'
import { QUEUES } from '../../workflows/contract/policy.ts'

const TIMEOUT_MS = 3_000
/** The control plane's queues, once per task queue type (Temporal's numbers: 1 is workflow, 2 is activity). */
const POLLED = [QUEUES.control, QUEUES.webhooks].flatMap((name) => [1, 2].map((type) => ({ name, type })))

/** Lists the processes that recently polled the control plane's queues; throws if Temporal is unavailable. */
export async function listPollers(temporal: Client, namespace: string): Promise<WorkerView[]> {
  const answers = await temporal.withDeadline(Date.now() + TIMEOUT_MS, () =>
    Promise.all(
      POLLED.map(async ({ name, type: taskQueueType }) => {
        const request = { namespace, taskQueue: { name }, taskQueueType }
        const { pollers } = await temporal.workflowService.describeTaskQueue(request)
        return { name, pollers: pollers ?? [] }
      }),
    ),
  )
  const found = new Map<string, { queues: Set<string>; build: string | null; seenMs: number }>()
  for (const { name, pollers } of answers) {
    for (const { identity, lastAccessTime, deploymentOptions } of pollers) {
      if (!identity) continue
      const worker = found.get(identity) ?? { queues: new Set(), build: null, seenMs: 0 }
      worker.queues.add(name)
      worker.build ??= deploymentOptions?.buildId || null
      worker.seenMs = Math.max(worker.seenMs, Number(lastAccessTime?.seconds ?? 0) * 1_000)
      found.set(identity, worker)
    }
  }
  return [...found]
    .map(([identity, { queues, build, seenMs }]) => ({
      identity,
      queues: [...queues].toSorted(),
      build_id: build,
      last_seen_at: new Date(seenMs).toISOString(),
    }))
    .toSorted((a, b) => a.identity.localeCompare(b.identity))
}
