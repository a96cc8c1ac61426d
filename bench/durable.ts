import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, Connection } from '@temporalio/client'
import { infer } from '../embedded/demo/steps.ts'
import { BARE_QUEUE } from './bare/activities.ts'
import { judge } from './floors.ts'
import { median, startPlatform } from './platform.ts'
import { unlessOnce } from './rounds.ts'

// The time that the platform adds to a task on the durable path (row, start intent, placement, claim under a lease,
// result, ledger, event), beside the same Temporal steps without content: a workflow, a local activity, an activity of
// another process. Each side is timed from the request to the result that the caller gets, less the time in the model.

const WARM_UP = 10
const TASKS = unlessOnce(60, 5)
const ROUNDS = unlessOnce(3)
const POLL_MS = 4
const GOAL = 1.3

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
    await sleep(POLL_MS)
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
const ratio = median(ratios)
judge('durable', [{ what: 'median, of bare Temporal steps', measured: ratio, goal: GOAL }])
