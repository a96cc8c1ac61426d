import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, Connection } from '@temporalio/client'
import { AdminClient } from '../cli/admin-client.ts'
import { infer } from '../embedded/demo/steps.ts'
import { BARE_QUEUE } from './bare/activities.ts'
import { judge } from './floors.ts'
import { cpuSeconds, median, startPlatform } from './platform.ts'
import { unlessOnce } from './rounds.ts'

// Measures the time that the platform adds to a task on the durable path (row, start intent, placement, claim under a
// lease, result, ledger, event), compared with the same empty Temporal steps: a workflow, a local activity, and an
// activity in another process. Each side is timed from the request to the caller's result, minus the time in the model.
// Also measures the gateway's CPU per queued task, and per read of a task.

const WARM_UP = 10
const TASKS = unlessOnce(60, 5)
const ROUNDS = unlessOnce(3)
const POLL_INTERVAL_MS = 4
const GOAL = 1.3
/** The number of tasks waiting for a node while the gateway's CPU is measured. */
const WAITING = unlessOnce(500, 20)
const AT_ONCE = 8
const SETTLE_DELAY_MS = unlessOnce(10_000, 500)
const GOAL_CPU = 150

await using platform = await startPlatform()
const { h, endpoint } = platform
await infer(h, endpoint)

const workers = ['control', 'node'].map((role) =>
  spawn(process.execPath, ['bench/bare/worker.ts', role, platform.temporalAddress], { stdio: 'ignore' }),
)
await using _workers = {
  async [Symbol.asyncDispose]() {
    for (const worker of workers) worker.kill('SIGTERM')
    for (const worker of workers) if (worker.exitCode === null) await once(worker, 'exit')
  },
}
const connection = await Connection.connect({ address: platform.temporalAddress })
const client = new Client({ connection })

async function platformTask(): Promise<number> {
  const began = performance.now()
  const { task_id } = await h.endpoints.inferAsync(endpoint.endpoint_id, { input: endpoint.example_input })
  for (;;) {
    const task = await h.tasks.get(task_id)
    if (task.status === 'failed') throw new Error(task.error ?? '')
    if (task.status === 'succeeded') return performance.now() - began - (task.inference_time_ms ?? 0)
    await sleep(POLL_INTERVAL_MS)
  }
}

async function bareTask(): Promise<number> {
  const began = performance.now()
  const id = randomUUID()
  const handle = await client.workflow.start('bare', {
    taskQueue: BARE_QUEUE,
    workflowId: id,
    args: [{ id }],
  })
  await handle.result()
  return performance.now() - began
}

for (let i = 0; i < WARM_UP; i++) {
  await platformTask()
  await bareTask()
}
const ratios: number[] = []
for (let round = 1; round <= ROUNDS; round++) {
  const ours: number[] = []
  const bare: number[] = []
  for (let i = 0; i < TASKS; i++) {
    ours.push(await platformTask())
    bare.push(await bareTask())
  }
  ratios.push(median(ours) / median(bare))
  console.log(
    `round ${round}, median of ${TASKS}: platform ${median(ours).toFixed(1)} ms   bare Temporal steps ${median(bare).toFixed(1)} ms`,
  )
}
await connection.close()

const api = platform.pidOf('api')
/** Returns the gateway's CPU per request, with several at once. */
async function cpuOf(count: number, ask: (index: number) => Promise<unknown>): Promise<number> {
  const before = cpuSeconds(api)
  let next = 0
  const send = async () => {
    while (next < count) await ask(next++)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, send))
  return ((cpuSeconds(api) - before) / count) * 1e6
}

// Keep the tasks waiting, so that the gateway only starts their workflows.
const admin = new AdminClient(platform.baseUrl, platform.operationsKey)
await admin.call('PATCH', `/accounts/${platform.accountId}`, { task_quota: 10_000 })
const [node] = (await admin.call<{ nodes: { node_id: string }[] }>('GET', '/nodes')).nodes
await admin.call('POST', `/nodes/${node!.node_id}/drain`)
const ids: string[] = []
const queue = async () => {
  const { task_id } = await h.endpoints.inferAsync(endpoint.endpoint_id, { input: endpoint.example_input })
  ids.push(task_id)
}
await cpuOf(WAITING, queue)
const queued = await cpuOf(WAITING, queue)
await sleep(SETTLE_DELAY_MS)
const idle = await cpuOf(1, () => sleep(SETTLE_DELAY_MS))
const polled = await cpuOf(10 * WAITING, (i) => h.tasks.get(ids[i % ids.length]!))
console.log(
  `gateway, ${AT_ONCE} at once: ${queued.toFixed(0)} µs CPU per infer:async, ${polled.toFixed(0)} µs per task GET; ${ids.length} waiting tasks take ${((idle / SETTLE_DELAY_MS) * 1e-1).toFixed(1)} % of a core`,
)
await admin.call('POST', `/nodes/${node!.node_id}/resume`)
while ((await h.tasks.get(ids.at(-1)!)).status !== 'succeeded') await sleep(100)

judge('durable', [
  { what: 'median, of bare Temporal steps', measured: median(ratios), goal: GOAL },
  { what: 'CPU of infer:async, µs', measured: queued, goal: GOAL_CPU },
  { what: 'CPU of GET of a task, µs', measured: polled, goal: GOAL_CPU },
])
