import type { Executor } from '../../../db/prepared-pool.ts'
import type { Settlement, TaskEntry } from '../../../db/repositories/tasks/entry.ts'
import * as taskWriteRepository from '../../../db/repositories/tasks/writes.ts'
import { ApiError } from '../../../domain/errors.ts'
import type { Logger } from '../../../platform/log.ts'
import { type Metrics, NO_METRICS } from '../../../platform/metrics/metrics.ts'
import { GroupWriter, type GroupWriterOptions } from './group-writer.ts'

/**
 * How long we collect settlements before writing them. No client waits for them: streams have delivered their last
 * chunk, and other tasks are polled.
 */
const SETTLE_DELAY_MS = 10
/** The memory that a row uses, in bytes, excluding its bodies. */
const ROW_BYTES = 512

/** The row of a task that is still running. */
export interface OpenRow {
  /** Also rejects if the row is late and the caller should stop waiting. */
  readonly opened: Promise<void>
  /** Rejects only if the row will never exist; a late row must be settled like any other. */
  readonly written: Promise<void>
}

type JournalKind = 'open' | 'settle'

interface JournalOptions extends Pick<GroupWriterOptions<unknown>, 'patienceMs' | 'onFault'> {
  metrics?: Metrics
}

/** Writes the rows of warm inference, many per transaction. Each request is answered once its row is durable. */
export class Journal implements AsyncDisposable {
  readonly #opened: GroupWriter<TaskEntry>
  readonly #settled: GroupWriter<Settlement>
  readonly #open = new Set<Promise<void>>()

  constructor(db: Executor, log: Logger, { metrics = NO_METRICS, ...options }: JournalOptions = {}) {
    this.#opened = new GroupWriter({
      ...options,
      onWritten: measured(metrics, 'open'),
      write: (entries) => taskWriteRepository.insertTasks(db, entries),
      sizeOf: ({ input, result }) => ROW_BYTES + (input?.length ?? 0) + (result?.length ?? 0),
      explain: (err, { id }) => nameTask(err, id),
      log,
    })
    this.#settled = new GroupWriter({
      ...options,
      onWritten: measured(metrics, 'settle'),
      gatherMs: SETTLE_DELAY_MS,
      write: (settlements) => taskWriteRepository.settleTasks(db, settlements),
      sizeOf: ({ result }) => ROW_BYTES + (result?.length ?? 0),
      log,
    })
  }

  /** Rejects new work while too many rows are waiting to be written. */
  admit(): void {
    if (!this.#opened.isFull && !this.#settled.isFull) return
    throw new ApiError('no_capacity', 'too many results are waiting to be recorded; try again in a moment', {
      headers: { 'retry-after': '1' },
    })
  }

  /** Writes the row of a task that has already ended. */
  insert(entry: TaskEntry): Promise<void> {
    return this.#opened.add(entry)
  }

  /** Writes the row of a task that this gateway will settle. No other gateway settles it while this one is alive. */
  open(entry: TaskEntry): OpenRow {
    const { promise: opened, resolve, reject } = Promise.withResolvers<void>()
    const written = this.#opened.add(entry, reject)
    written.then(resolve, reject)
    // The promise is awaited later; an earlier rejection must not count as unhandled.
    opened.catch(() => {})
    return { opened, written }
  }

  /** Settles an opened task once its row is written. */
  settle(settlement: Settlement): Promise<void> {
    return this.#settled.add(settlement)
  }

  /** Returns the rows that are not durable yet: of new tasks, and of settlements. */
  backlogs(): { kind: JournalKind; rows: number; oldestMs: number }[] {
    return [
      { kind: 'open', ...this.#opened.backlog },
      { kind: 'settle', ...this.#settled.backlog },
    ]
  }

  /** Keeps the journal open until this work has settled its row. */
  keep(work: Promise<void>): void {
    this.#open.add(work)
    void work.finally(() => this.#open.delete(work))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // This also stops work from waiting for rows that the database doesn't accept.
    await this.#opened[Symbol.asyncDispose]()
    await Promise.all(this.#open)
    await this.#settled[Symbol.asyncDispose]()
  }
}

function measured(metrics: Metrics, kind: JournalKind): (rows: number, ms: number) => void {
  const duration = metrics.histogram('hearth.journal.commit.duration', { kind })
  const size = metrics.histogram('hearth.journal.group.size', { kind })
  return (rows, ms) => {
    duration.record(ms / 1_000)
    size.record(rows)
  }
}

/**
 * A late row may still be written, so we give the caller the task's id to check. Repeating the request could charge it
 * twice.
 */
function nameTask(err: ApiError, taskId: string): ApiError {
  if (err.code !== 'unavailable') return err
  const message = `${err.message}; check task ${taskId} before you retry`
  return new ApiError('unavailable', message, { details: { task_id: taskId }, cause: err })
}
