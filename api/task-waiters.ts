import { setMaxListeners } from 'node:events'
import type { Kysely } from 'kysely'
import pg from 'pg'
import { findEnded } from '../db/repositories/tasks.ts'
import { TASK_CHANNEL } from '../db/repositories/task-writes.ts'
import type { Database } from '../db/tables.ts'
import type { Logger } from '../platform/log.ts'

const POLL_MS = 1_000
const CONNECT_MS = 5_000

/** Wakes who waits for a task: by NOTIFY when it ends, and by a look every second, for a NOTIFY may be missed. */
export class TaskWaiters implements AsyncDisposable {
  readonly #db: Kysely<Database>
  readonly #url: string
  readonly #log: Logger
  readonly #waiting = new Map<string, Set<() => void>>()
  readonly #closing = new AbortController()
  #timer: NodeJS.Timeout | undefined
  #listener: pg.Client | undefined

  constructor(db: Kysely<Database>, url: string, log: Logger) {
    this.#db = db
    this.#url = url
    this.#log = log
    // One for each request that waits.
    setMaxListeners(0, this.#closing.signal)
  }

  async start(): Promise<void> {
    await this.#listen()
    this.#schedule()
  }

  /** True once the task has ended; false when the time is up, the signal aborts or the gateway stops first. */
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
    clearTimeout(this.#timer)
    await this.#listener?.end()
  }

  #wake(taskId: string): void {
    for (const wake of this.#waiting.get(taskId) ?? []) wake()
  }

  #schedule(): void {
    if (this.#closing.signal.aborted) return
    this.#timer = setTimeout(() => {
      void this.#tick().finally(() => this.#schedule())
    }, POLL_MS)
  }

  async #tick(): Promise<void> {
    try {
      if (!this.#listener) await this.#listen()
      if (this.#waiting.size === 0) return
      for (const taskId of await findEnded(this.#db, [...this.#waiting.keys()])) this.#wake(taskId)
    } catch (err) {
      this.#log.warn({ err }, 'cannot see which tasks have ended')
    }
  }

  async #listen(): Promise<void> {
    const client = new pg.Client({
      connectionString: this.#url,
      keepAlive: true,
      connectionTimeoutMillis: CONNECT_MS,
    })
    const drop = (): void => {
      if (this.#listener === client) this.#listener = undefined
    }
    client.on('error', drop).on('end', drop)
    client.on('notification', ({ payload }) => this.#wake(payload ?? ''))
    try {
      await client.connect()
      await client.query(`listen ${TASK_CHANNEL}`)
    } catch (err) {
      await client.end().catch(() => {})
      throw err
    }
    if (this.#closing.signal.aborted) return client.end()
    this.#listener = client
  }
}
