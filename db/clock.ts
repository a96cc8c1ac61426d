import { type Kysely, sql } from 'kysely'
import type { Database } from './tables.ts'

/**
 * The time by the clock of PostgreSQL, for what decides by the age of something that is not a row: workers may be ahead of
 * each other, and the database is one.
 */
export async function databaseNow(db: Kysely<Database>): Promise<Date> {
  const { rows } = await sql<{ now: Date }>`select now() as now`.execute(db)
  return rows[0]?.now ?? new Date(0)
}

const REFRESH_MS = 5_000

/**
 * The time by the clock of PostgreSQL for what asks too often for a query each: the last answer, and how long ago that was by
 * a clock that nobody sets. The clock of this process counts for nothing.
 */
export class DatabaseClock implements Disposable {
  readonly #db: Kysely<Database>
  readonly #timer: NodeJS.Timeout
  #offsetMs: number

  private constructor(db: Kysely<Database>, offsetMs: number) {
    this.#db = db
    this.#offsetMs = offsetMs
    this.#timer = setInterval(() => void this.#refresh(), REFRESH_MS).unref()
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

  /** While the database is away the last answer goes on. */
  async #refresh(): Promise<void> {
    this.#offsetMs = await offsetOf(this.#db).catch(() => this.#offsetMs)
  }
}

async function offsetOf(db: Kysely<Database>): Promise<number> {
  const time = await databaseNow(db)
  return time.getTime() - performance.now()
}
