import { setMaxListeners } from 'node:events'
import type { Kysely } from 'kysely'
import { Listener } from '../../../db/listener.ts'
import * as taskRepository from '../../../db/repositories/tasks/tasks.ts'
import * as taskWriteRepository from '../../../db/repositories/tasks/writes.ts'
import type { Database } from '../../../db/tables.ts'
import { BackgroundLoop } from '../../../platform/async/background-loop.ts'
import type { Logger } from '../../../platform/log.ts'
import { emit } from '../../events.ts'

const POLL_INTERVAL_MS = 1_000

/**
 * Wakes requests that are waiting for a task: by NOTIFY when the task ends, and by a poll every second, because a
 * NOTIFY may be lost.
 */
export class TaskWaiters implements AsyncDisposable {
  readonly #db: Kysely<Database>
  readonly #waiting = new Map<string, Set<() => void>>()
  readonly #closing = new AbortController()
  readonly #listener: Listener
  readonly #loop: BackgroundLoop

  constructor(db: Kysely<Database>, url: string, log: Logger) {
    this.#db = db
    this.#loop = new BackgroundLoop(() => this.#poll(), {
      everyMs: POLL_INTERVAL_MS,
      onError: (err) => emit(log, 'task.ends_read_failed', { err }),
    })
    this.#listener = new Listener(url, {
      channel: taskWriteRepository.TASK_CHANNEL,
      onNotify: (taskId) => this.#wake(taskId),
      onGap: () => void this.#loop.run(),
      onError: (err) => emit(log, 'task.ends_notify_lost', { err }),
    })
    // Each waiting request adds a listener.
    setMaxListeners(0, this.#closing.signal)
  }

  async start(): Promise<void> {
    await this.#listener.start()
    this.#loop.start()
  }

  /**
   * Resolves to true once the task has ended, or to false if the time is up, the signal aborts or the gateway stops
   * first.
   */
  wait(taskId: string, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const wake = () => resolve(true)
    const giveUp = () => resolve(false)
    const timer = setTimeout(giveUp, timeoutMs)
    const ends = [signal, this.#closing.signal]
    for (const end of ends) end.addEventListener('abort', giveUp, { once: true })
    if (ends.some(({ aborted }) => aborted)) giveUp()
    const waiting = this.#waiting.get(taskId) ?? new Set()
    this.#waiting.set(taskId, waiting.add(wake))
    return promise.finally(() => {
      clearTimeout(timer)
      for (const end of ends) end.removeEventListener('abort', giveUp)
      waiting.delete(wake)
      if (waiting.size === 0) this.#waiting.delete(taskId)
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    await this.#loop[Symbol.asyncDispose]()
    await this.#listener[Symbol.asyncDispose]()
  }

  #wake(taskId: string): void {
    for (const wake of this.#waiting.get(taskId) ?? []) wake()
  }

  async #poll(): Promise<void> {
    if (this.#waiting.size === 0) return
    for (const taskId of await taskRepository.findEnded(this.#db, [...this.#waiting.keys()]))
      this.#wake(taskId)
  }
}
