import { parentPort, workerData } from 'node:worker_threads'
import { MergeError } from './merge-error.ts'
import type { Reply, Request, WorkerSettings } from './pool.ts'
import { perform } from './tensor-operations.ts'
import { openBench } from './workbench.ts'

// One thread of a merge, which performs the tasks it receives in order.
const { chunkBytes } = workerData as WorkerSettings
const bench = openBench(chunkBytes)

parentPort?.on('message', ({ id, task }: Request) => {
  parentPort?.postMessage(attempt(id, task))
})

function attempt(id: number, task: Request['task']): Reply {
  try {
    return { id, answer: perform(bench, task) }
  } catch (err) {
    const message = err instanceof Error ? err.message : String(err)
    const code = err instanceof MergeError ? err.code : undefined
    return { id, error: { message, ...(code !== undefined && { code }) } }
  }
}
