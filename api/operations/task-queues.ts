import type { Client } from '@temporalio/client'
import { NODE_QUEUES } from '../../domain/placement/node-queues.ts'
import type { TaskQueue } from '../../schemas/operations.ts'
import { QUEUES } from '../../workflows/contract/policy.ts'

const TIMEOUT_MS = 3_000
/** Temporal's numbers for the task queue types. */
const TYPE = { workflow: 1, activity: 2 } as const

interface QueueRef {
  name: string
  kind: TaskQueue['kind']
}

/** The queues that every installation has. */
const ALWAYS: readonly QueueRef[] = [
  { name: QUEUES.control, kind: 'workflow' },
  { name: QUEUES.control, kind: 'activity' },
  { name: QUEUES.webhooks, kind: 'workflow' },
  { name: QUEUES.webhooks, kind: 'activity' },
  ...[NODE_QUEUES.train('cpu'), NODE_QUEUES.train('gpu'), NODE_QUEUES.mergeCpu].map((name): QueueRef => ({
    name,
    kind: 'activity',
  })),
]

/**
 * Queries Temporal for the backlog of the given queues and of those that every installation has; throws if Temporal
 * doesn't respond. A loaded queue takes 2 ms, an idle one 20 ms.
 */
export function describeQueues(
  temporal: Client,
  namespace: string,
  more: readonly string[],
): Promise<TaskQueue[]> {
  const known = new Set(ALWAYS.map(({ name }) => name))
  const queues = [
    ...ALWAYS,
    ...more.filter((name) => !known.has(name)).map((name): QueueRef => ({ name, kind: 'activity' })),
  ]
  return temporal.withDeadline(Date.now() + TIMEOUT_MS, () =>
    Promise.all(queues.map((queue) => describe(temporal, namespace, queue))),
  )
}

async function describe(temporal: Client, namespace: string, { name, kind }: QueueRef): Promise<TaskQueue> {
  const { pollers, stats } = await temporal.workflowService.describeTaskQueue({
    namespace,
    taskQueue: { name },
    taskQueueType: TYPE[kind],
    reportStats: true,
  })
  return {
    name,
    kind,
    backlog: Math.max(0, Number(stats?.approximateBacklogCount ?? 0)),
    backlog_age_s: secondsOf(stats?.approximateBacklogAge),
    added_per_s: rate(stats?.tasksAddRate),
    dispatched_per_s: rate(stats?.tasksDispatchRate),
    pollers: pollers?.length ?? 0,
  }
}

const rate = (value: number | null | undefined): number => Math.round((value ?? 0) * 100) / 100

function secondsOf(duration: { seconds?: unknown; nanos?: number | null } | null | undefined): number {
  if (!duration) return 0
  return Math.round((Number(duration.seconds ?? 0) + (duration.nanos ?? 0) / 1e9) * 1000) / 1000
}
