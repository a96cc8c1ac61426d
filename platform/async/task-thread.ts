import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { FairSemaphore } from './fair-semaphore.ts'

export interface TaskThreadOptions {
  /** The time limit of a task, including the start of the thread. */
  timeoutMs: number
  /** The thread ends after this long without a task. */
  idleMs: number
  heapMb: number
  /** The maximum number of callers that wait for the thread. */
  maxWaiting: number
}

/** The message that a thread posts for each task. */
export type TaskReply<Answer> = { answer: Answer } | { error: string }

/** Thrown when a task takes longer than its thread allows. */
export class TaskTimeout extends Error {
  override readonly name = 'TaskTimeout'
}

/**
 * A worker thread for work that would block the event loop. It performs one task at a time and owners take turns. The
 * thread starts with the first task and ends when it has been idle for a while, so an idle process pays nothing for it.
 * We don't use tinypool or piscina, because both leave queued tasks waiting when they abort the running one.
 */
export class TaskThread<Task, Answer> implements AsyncDisposable {
  readonly #entry: URL
  readonly #options: TaskThreadOptions
  readonly #turns: FairSemaphore
  #worker: Worker | undefined
  #idle: NodeJS.Timeout | undefined

  /** `entry` is a module that answers each message with a `TaskReply`. */
  constructor(entry: URL, options: TaskThreadOptions) {
    this.#entry = entry
    this.#options = options
    this.#turns = new FairSemaphore({ most: 1, mostPerKey: 1, mostWaiting: options.maxWaiting })
  }

  get isRunning(): boolean {
    return this.#worker !== undefined
  }

  /**
   * Performs a task, which is copied to the thread. `signal` ends the wait for a turn. Throws `QueueFullError`,
   * `TaskTimeout`, the signal's reason, or an error with the message of the task's error.
   */
  async run(owner: string, task: Task, signal: AbortSignal): Promise<Answer> {
    using _turn = await this.#turns.take(owner, signal)
    clearTimeout(this.#idle)
    const worker = (this.#worker ??= this.#start())
    worker.postMessage(task)
    try {
      const reply = await this.#reply(worker)
      if ('error' in reply) throw new Error(reply.error)
      return reply.answer
    } finally {
      if (this.#worker) this.#idle = setTimeout(() => void this.#end(), this.#options.idleMs).unref()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#idle)
    await this.#end()
  }

  async #reply(worker: Worker): Promise<TaskReply<Answer>> {
    const { timeoutMs } = this.#options
    const [limit, settled] = [AbortSignal.timeout(timeoutMs), new AbortController()]
    const listening = { signal: AbortSignal.any([limit, settled.signal]) }
    const exited = async () => {
      const [code] = await once(worker, 'exit', listening)
      throw new Error(`the thread ended with code ${code}`)
    }
    try {
      const [reply] = (await Promise.race([once(worker, 'message', listening), exited()])) as [
        TaskReply<Answer>,
      ]
      return reply
    } catch (cause) {
      // The thread may still be working on this task; its reply must not be mistaken for the next task's.
      await this.#end()
      throw limit.aborted ? new TaskTimeout(`the task took longer than ${timeoutMs} ms`, { cause }) : cause
    } finally {
      settled.abort()
    }
  }

  #start(): Worker {
    const worker = new Worker(this.#entry, {
      resourceLimits: { maxOldGenerationSizeMb: this.#options.heapMb },
    })
    worker.unref()
    // While a task runs, its own wait handles the error. Without this listener, an error between tasks would end the
    // process.
    worker.on('error', () => {})
    worker.on('exit', () => {
      if (this.#worker === worker) this.#worker = undefined
    })
    return worker
  }

  async #end(): Promise<void> {
    const worker = this.#worker
    this.#worker = undefined
    await worker?.terminate()
  }
}
