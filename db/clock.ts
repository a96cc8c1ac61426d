import { type Kysely, sql } from 'kysely'
import type { Database } from './tables.ts'

/**
 * Returns PostgreSQL's time, for decisions about the age of something other than a row. The workers' clocks may differ,
 * but there is only one database.
 */
export async function databaseNow(db: Kysely<Database>): Promise<Date> {
  const { rows } = await sql<{ now: Date }>`select now() as now`.execute(db)
  return rows[0]?.now ?? new Date(0)
}

const REFRESH_INTERVAL_MS = 5_000

/**
 * PostgreSQL's time, for callers that need it too often to query it each time: the last result plus the time since then
 * on a monotonic clock. It does not use this process's system clock.
 */
export class DatabaseClock implements Disposable {
  readonly #db: Kysely<Database>
  readonly #timer: NodeJS.Timeout
  #offsetMs: number

  private constructor(db: Kysely<Database>, offsetMs: number) {
    this.#db = db
    this.#offsetMs = offsetMs
    this.#timer = setInterval(() => void this.#refresh(), REFRESH_INTERVAL_MS).unref()
  }

  static async open(db: Kysely<Database>): Promise<DatabaseClock> {
    return new DatabaseClock(db, await offsetOf(db))
  }

  now(): Date {
    return new Date(performance.now() + this.#offsetMs)
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  /** Updates the offset; while the database is unreachable, the last one stays in use. */
  async #refresh(): Promise<void> {
    this.#offsetMs = await offsetOf(this.#db).catch(() => this.#offsetMs)
  }
}

async function offsetOf(db: Kysely<Database>): Promise<number> {
  const time = await databaseNow(db)
  return time.getTime() - performance.now()
}
