import { type Kysely, sql } from 'kysely'
import type { Database } from './tables.ts'

/**
 * Returns the time of PostgreSQL, for decisions by the age of something other than a row. The clocks of workers may
 * differ, and there is only one database.
 */
export async function databaseNow(db: Kysely<Database>): Promise<Date> {
  const { rows } = await sql<{ now: Date }>`select now() as now`.execute(db)
  return rows[0]?.now ?? new Date(0)
}

const REFRESH_INTERVAL_MS = 5_000

/**
 * The time of PostgreSQL, for callers that need it too often for a query each: the last answer plus the time since on a
 * monotonic clock. It does not use the system clock of this process.
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

  /** While the database is away, the last offset stays in use. */
  async #refresh(): Promise<void> {
    this.#offsetMs = await offsetOf(this.#db).catch(() => this.#offsetMs)
  }
}

async function offsetOf(db: Kysely<Database>): Promise<number> {
  const time = await databaseNow(db)
  return time.getTime() - performance.now()
}
