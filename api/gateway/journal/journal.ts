import type { Executor } from '../../../db/prepared-pool.ts'
import type { Settlement, TaskEntry } from '../../../db/repositories/tasks/entry.ts'
import * as taskWriteRepository from '../../../db/repositories/tasks/writes.ts'
import { ApiError } from '../../../domain/errors.ts'
import type { Logger } from '../../../platform/log.ts'
import { GroupWriter, type GroupWriterOptions } from './group-writer.ts'

/**
 * The gathering time for ends of tasks, because no client waits for them: streams have delivered their last chunk,
 * and other tasks are polled.
 */
const SETTLE_DELAY_MS = 10
/** The memory of a row in bytes, without its bodies. */
const ROW_BYTES = 512

/** The row of a task that is still running. */
export interface OpenRow {
  /** Rejects also when the row is late and the caller should not wait. */
  readonly opened: Promise<void>
  /** Rejects only when the row will never exist; a late row must be settled like any other. */
  readonly written: Promise<void>
}

type JournalOptions = Pick<GroupWriterOptions<unknown>, 'patienceMs' | 'onFault'>

/** Writes the rows of warm inference, many requests to a transaction. Each request is answered once its row is durable. */
export class Journal implements AsyncDisposable {
  readonly #opened: GroupWriter<TaskEntry>
  readonly #settled: GroupWriter<Settlement>
  readonly #open = new Set<Promise<void>>()

  constructor(db: Executor, log: Logger, options: JournalOptions = {}) {
    this.#opened = new GroupWriter({
      ...options,
      write: (entries) => taskWriteRepository.insertTasks(db, entries),
      sizeOf: ({ input, result }) => ROW_BYTES + (input?.length ?? 0) + (result?.length ?? 0),
      explain: (err, { id }) => nameTask(err, id),
      log,
    })
    this.#settled = new GroupWriter({
      ...options,
      gatherMs: SETTLE_DELAY_MS,
      write: (settlements) => taskWriteRepository.settleTasks(db, settlements),
      sizeOf: ({ result }) => ROW_BYTES + (result?.length ?? 0),
      log,
    })
  }

  /** Refuses new work while too many rows wait to be written. */
  admit(): void {
    if (!this.#opened.isFull && !this.#settled.isFull) return
    throw new ApiError('no_capacity', 'too many results wait to be recorded; try again in a moment', {
      headers: { 'retry-after': '1' },
    })
  }

  /** Writes the row of a task that has already ended. */
  insert(entry: TaskEntry): Promise<void> {
    return this.#opened.add(entry)
  }

  /** Writes the row of a task that this gateway will settle; no other gateway does while this one lives. */
  open(entry: TaskEntry): OpenRow {
    const { promise: opened, resolve, reject } = Promise.withResolvers<void>()
    const written = this.#opened.add(entry, reject)
    written.then(resolve, reject)
    // The promise is awaited later; an earlier rejection must not count as unhandled.
    opened.catch(() => {})
    return { opened, written }
  }

  /** Settles a task whose row was opened, once that row is written. */
  settle(settlement: Settlement): Promise<void> {
    return this.#settled.add(settlement)
  }

  /** Delays the closing of the journal until this work has settled its row. */
  keep(work: Promise<void>): void {
    this.#open.add(work)
    void work.finally(() => this.#open.delete(work))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Work that waits for rows which the database does not accept stops waiting here.
    await this.#opened[Symbol.asyncDispose]()
    await Promise.all(this.#open)
    await this.#settled[Symbol.asyncDispose]()
  }
}

/**
 * A late row may still be written, so its caller gets the task's id to read. Repeating the
 * request would charge it twice.
 */
function nameTask(err: ApiError, taskId: string): ApiError {
  if (err.code !== 'unavailable') return err
  const message = `${err.message}; read task ${taskId} before you ask again`
  return new ApiError('unavailable', message, { details: { task_id: taskId }, cause: err })
}
