import { Worker } from 'node:worker_threads'
import { MergeError } from './merge-error.ts'
import type { Answer, Task } from './tasks.ts'

export interface WorkerSettings {
  chunkBytes: number
}
export interface Request {
  id: number
  task: Task
}
export interface Reply {
  id: number
  answer?: Answer
  error?: { message: string; code?: string }
}

interface QueuedTask {
  task: Task
  resolve: (answer: never) => void
  reject: (err: Error) => void
}

/** The number of tasks queued per worker, so that no worker waits for the main thread. */
const PER_WORKER = 2
const WORKER_HEAP_MB = 48

/** Threads that work on slices of tensors. Disposing the pool terminates them at once. */
export class MergePool implements AsyncDisposable {
  readonly #workers: { worker: Worker; busy: number }[]
  readonly #urgent: QueuedTask[] = []
  readonly #queue: QueuedTask[] = []
  readonly #running = new Map<number, QueuedTask>()
  #ids = 0
  #fault: Error | undefined

  constructor({ threads, chunkBytes }: { threads: number; chunkBytes: number }) {
    this.#workers = Array.from({ length: threads }, () => this.#start({ chunkBytes }))
  }

  /** Runs a task. Urgent tasks go first: they finish a tensor that has been started. */
  run<T extends Task>(task: T, { isUrgent = false } = {}): Promise<Answer<T>> {
    if (this.#fault) return Promise.reject(this.#fault)
    return new Promise((resolve, reject) => {
      const queue = isUrgent ? this.#urgent : this.#queue
      queue.push({ task, resolve, reject })
      this.#feed()
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#fail(new Error('the threads of this merge were terminated'))
    await Promise.all(this.#workers.map(({ worker }) => worker.terminate()))
  }

  #start(workerData: WorkerSettings): { worker: Worker; busy: number } {
    const worker = new Worker(new URL('./start-worker.mjs', import.meta.url), {
      workerData,
      resourceLimits: { maxOldGenerationSizeMb: WORKER_HEAP_MB, maxYoungGenerationSizeMb: 4 },
    })
    const slot = { worker, busy: 0 }
    worker.on('message', (reply: Reply) => {
      slot.busy -= 1
      this.#settle(reply)
      this.#feed()
    })
    worker.on('error', (err) => this.#fail(err instanceof Error ? err : new Error(String(err))))
    return slot
  }

  #feed(): void {
    for (;;) {
      const free = this.#workers.reduce((a, b) => (b.busy < a.busy ? b : a))
      if (free.busy >= PER_WORKER) return
      const next = this.#urgent.shift() ?? this.#queue.shift()
      if (!next) return
      const id = this.#ids++
      this.#running.set(id, next)
      free.busy += 1
      free.worker.postMessage({ id, task: next.task } satisfies Request)
    }
  }

  #settle({ id, answer, error }: Reply): void {
    const waiting = this.#running.get(id)
    this.#running.delete(id)
    if (!waiting) return
    if (answer) return waiting.resolve(answer as never)
    const message = error?.message ?? 'a thread exited without returning a result'
    waiting.reject(error?.code === undefined ? new Error(message) : new MergeError(error.code, message))
  }

  #fail(err: Error): void {
    this.#fault ??= err
    const all = [...this.#running.values(), ...this.#urgent.splice(0), ...this.#queue.splice(0)]
    this.#running.clear()
    for (const { reject } of all) reject(this.#fault)
  }
}
