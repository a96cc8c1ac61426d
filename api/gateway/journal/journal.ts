import type { Executor } from '../../../db/prepared-pool.ts'
import type { Settlement, TaskEntry } from '../../../db/repositories/tasks/entry.ts'
import { insertTasks, settleTasks } from '../../../db/repositories/tasks/writes.ts'
import { ApiError } from '../../../domain/errors.ts'
import type { Logger } from '../../../platform/log.ts'
import { GroupWriter } from './group-writer.ts'

/** Ends of streams, which their clients have seen by then, and of tasks that are polled for go together. */
const SETTLE_GATHER_MS = 10
/** A row's share of memory besides its bodies. */
const ROW_BYTES = 512

/** The row of work that goes on. */
export interface OpenRow {
  /** Rejects as well when its caller should not wait on. */
  readonly opened: Promise<void>
  /** Rejects only when there will never be a row: one that is late has to be ended like any other. */
  readonly written: Promise<void>
}

/** The rows of warm inference: many requests to a transaction, each answered once its row is durable. */
export class Journal implements AsyncDisposable {
  readonly #opened: GroupWriter<TaskEntry>
  readonly #settled: GroupWriter<Settlement>
  readonly #open = new Set<Promise<void>>()

  constructor(db: Executor, log: Logger, patience: { patienceMs?: number } = {}) {
    this.#opened = new GroupWriter({
      ...patience,
      write: (entries) => insertTasks(db, entries),
      sizeOf: ({ input, result }) => ROW_BYTES + (input?.length ?? 0) + (result?.length ?? 0),
      explain: (err, { id }) => nameTask(err, id),
      log,
    })
    this.#settled = new GroupWriter({
      ...patience,
      gatherMs: SETTLE_GATHER_MS,
      write: (settlements) => settleTasks(db, settlements),
      sizeOf: ({ result }) => ROW_BYTES + (result?.length ?? 0),
      log,
    })
  }

  /** Refuses new work while too much waits to be written. */
  admit(): void {
    if (!this.#opened.isFull && !this.#settled.isFull) return
    throw new ApiError('no_capacity', 'too many results wait to be recorded; try again in a moment', {
      headers: { 'retry-after': '1' },
    })
  }

  /** Writes the row of a task that has ended already. */
  insert(entry: TaskEntry): Promise<void> {
    return this.#opened.add(entry)
  }

  /** Writes the row of a task that is seen to, and settled, by this gateway: nobody else does while it lives. */
  open(entry: TaskEntry): OpenRow {
    const { promise: opened, resolve, reject } = Promise.withResolvers<void>()
    const written = this.#opened.add(entry, reject)
    written.then(resolve, reject)
    // Awaited where it matters; a failure before that must not count as unhandled.
    opened.catch(() => {})
    return { opened, written }
  }

  /** Ends a task whose row was opened, once it is written. */
  settle(settlement: Settlement): Promise<void> {
    return this.#settled.add(settlement)
  }

  /** Lets work on an open row end before this closes. */
  keep(work: Promise<void>): void {
    this.#open.add(work)
    void work.finally(() => this.#open.delete(work))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // What waits for rows that the database does not take waits no longer.
    await this.#opened[Symbol.asyncDispose]()
    await Promise.all(this.#open)
    await this.#settled[Symbol.asyncDispose]()
  }
}

/** A row that was not recorded in time may still be: its caller reads the task instead of asking, and paying, twice. */
function nameTask(err: ApiError, taskId: string): ApiError {
  if (err.code !== 'unavailable') return err
  const message = `${err.message}; read task ${taskId} before you ask again`
  return new ApiError('unavailable', message, { details: { task_id: taskId }, cause: err })
}
