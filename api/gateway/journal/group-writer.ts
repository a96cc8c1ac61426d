import { setTimeout as sleep } from 'node:timers/promises'
import { outsideAccounts } from '../../../db/account-share.ts'
import { isPermanent } from '../../../db/errors.ts'
import { ApiError } from '../../../domain/errors.ts'
import { backoff } from '../../../platform/async/retry.ts'
import type { Logger } from '../../../platform/log.ts'
import { emit } from '../../events.ts'

interface QueuedItem<T> {
  item: T
  bytes: number
  since: number
  resolve: () => void
  reject: (err: unknown) => void
  /** Called instead of `reject` when the item isn't durable yet; the caller's promise still settles later. */
  onLate: ((err: ApiError) => void) | undefined
  deadlineReported: boolean
}

export interface GroupWriterOptions<T> {
  /** Writes a group in one transaction. Must be idempotent. */
  write(items: readonly T[]): Promise<unknown>
  sizeOf(item: T): number
  log: Logger
  /** Returns the error for the caller that added the item, to replace `err`. */
  explain?: (err: ApiError, item: T) => ApiError
  /**
   * How long a group gathers items before it is written, if latency doesn't matter. Without it, a group is written as
   * soon as the previous one is done.
   */
  gatherMs?: number
  /** Called with the error of each failed attempt that will be retried. */
  onFault?: (err: unknown) => void
  /** Called after a transaction with its rows and its duration, including failed attempts. */
  onWritten?: (rows: number, ms: number) => void
  /** How long a caller waits for a database that doesn't respond. */
  patienceMs?: number
}

const MAX_GROUP = 256
const MAX_GROUP_BYTES = 8 * 1024 * 1024
const MAX_QUEUED = 8_192
const MAX_QUEUED_BYTES = 128 * 1024 * 1024
const TIMEOUT_MS = 10_000
const FIRST_DELAY_MS = 20
const MAX_DELAY_MS = 1_000
const STOP_TIMEOUT_MS = 3_000

/**
 * Writes the rows of many requests in few transactions: while one group is being written, the next one gathers. A write
 * with an unknown outcome is repeated. A group with a bad row is halved until that row is isolated.
 */
export class GroupWriter<T> implements AsyncDisposable {
  readonly #options: GroupWriterOptions<T>
  #queue: QueuedItem<T>[] = []
  #inFlight: readonly QueuedItem<T>[] = []
  #bytes = 0
  #running: Promise<void> | undefined
  #stopAt = Number.POSITIVE_INFINITY

  constructor(options: GroupWriterOptions<T>) {
    this.#options = options
  }

  get #patienceMs(): number {
    return this.#options.patienceMs ?? TIMEOUT_MS
  }

  /** True if no new work should be admitted. Items from work that was admitted earlier are always accepted. */
  get isFull(): boolean {
    return this.#queue.length >= MAX_QUEUED || this.#bytes >= MAX_QUEUED_BYTES
  }

  /** The rows that are not durable yet, and the age of the oldest one. */
  get backlog(): { rows: number; oldestMs: number } {
    const oldest = this.#inFlight[0] ?? this.#queue[0]
    const rows = this.#inFlight.length + this.#queue.length
    return { rows, oldestMs: oldest ? performance.now() - oldest.since : 0 }
  }

  /** True while the queue may gather more items: the writer isn't closing, and the queue doesn't yet fill a group. */
  get #hasTime(): boolean {
    const isFullGroup = this.#queue.length >= MAX_GROUP || this.#bytes >= MAX_GROUP_BYTES
    return !isFullGroup && this.#stopAt === Number.POSITIVE_INFINITY
  }

  /**
   * Resolves once the item is durable; rejects if it can't be written. If it isn't durable in time, calls `onLate` and
   * stays pending, or rejects if there is no `onLate`.
   */
  add(item: T, onLate?: (err: ApiError) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      const bytes = this.#options.sizeOf(item)
      this.#bytes += bytes
      this.#queue.push({
        item,
        bytes,
        since: performance.now(),
        resolve,
        reject,
        onLate,
        deadlineReported: false,
      })
      this.#running ??= outsideAccounts(() => this.#run())
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopAt = performance.now() + STOP_TIMEOUT_MS
    await this.#running
  }

  async #run(): Promise<void> {
    const { gatherMs } = this.#options
    // Lets requests handled in the same turn of the event loop share the first group.
    await Promise.resolve()
    while (this.#queue.length > 0) {
      if (gatherMs !== undefined && this.#hasTime) await sleep(gatherMs)
      const group = this.#nextGroup()
      this.#inFlight = group
      await this.#write(group)
      for (const { bytes } of group) this.#bytes -= bytes
    }
    this.#inFlight = []
    this.#running = undefined
  }

  #nextGroup(): QueuedItem<T>[] {
    let bytes = 0
    let count = 0
    for (const waiting of this.#queue) {
      bytes += waiting.bytes
      if (count === MAX_GROUP || (count > 0 && bytes > MAX_GROUP_BYTES)) break
      count++
    }
    return this.#queue.splice(0, count)
  }

  async #write(group: readonly QueuedItem<T>[]): Promise<void> {
    const beganAt = performance.now()
    for (let attempt = 0; ; attempt++) {
      try {
        await this.#attempt(group)
        for (const { resolve } of group) resolve()
        this.#options.onWritten?.(group.length, performance.now() - beganAt)
        return
      } catch (err) {
        if (isPermanent(err)) return await this.#halve(group, err)
        emit(this.#options.log, 'journal.write_failed', { err, rows: group.length })
        this.#options.onFault?.(err)
        if (performance.now() > this.#stopAt) return this.#refuse(group, err)
        this.#losePatience(err)
        await sleep(backoff(attempt, { first: FIRST_DELAY_MS, longest: MAX_DELAY_MS }))
      }
    }
  }

  /** Makes one attempt. Callers wait no longer for a hanging database than for one that refuses connections. */
  async #attempt(group: readonly QueuedItem<T>[]): Promise<void> {
    const silent = () => this.#losePatience(new Error('the database is not responding'))
    const timer = setInterval(silent, Math.min(MAX_DELAY_MS, this.#patienceMs))
    try {
      await this.#options.write(group.map(({ item }) => item))
    } finally {
      clearInterval(timer)
    }
  }

  async #halve(group: readonly QueuedItem<T>[], err: unknown): Promise<void> {
    if (group.length === 1) {
      emit(this.#options.log, 'journal.row_refused', { err })
      return this.#refuse(group, err)
    }
    const middle = Math.ceil(group.length / 2)
    await this.#write(group.slice(0, middle))
    await this.#write(group.slice(middle))
  }

  #refuse(group: readonly QueuedItem<T>[], cause: unknown): void {
    const err = new ApiError('internal', 'the result could not be recorded', { cause })
    for (const waiting of group) waiting.reject(this.#explain(waiting, err))
  }

  /** Fails the callers that have waited too long; their rows are still written once the database is back. */
  #losePatience(cause: unknown): void {
    const before = performance.now() - this.#patienceMs
    const err = new ApiError('unavailable', 'the result could not be recorded yet', { cause })
    for (const waiting of [...this.#inFlight, ...this.#queue]) {
      if (waiting.since >= before || waiting.deadlineReported) continue
      waiting.deadlineReported = true
      const tell = waiting.onLate ?? waiting.reject
      tell(this.#explain(waiting, err))
    }
  }

  #explain({ item }: QueuedItem<T>, err: ApiError): ApiError {
    return this.#options.explain?.(err, item) ?? err
  }
}
