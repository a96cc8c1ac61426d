import { Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import type { Database } from './tables.ts'

const INT8 = 20
// Counts, byte sizes and micro-credits all stay far below 2^53.
pg.types.setTypeParser(INT8, Number)

export interface DatabaseOptions {
  /** Connections at most. */
  max?: number
  /** How long a query waits for a connection: a server that hangs must not gather callers without end. */
  waitMs?: number
}

/** What polls every few seconds would otherwise log in anew each time, at ten milliseconds of CPU. */
const IDLE_MS = 60_000

/** A pool of connections to the platform's database; `destroy()` closes it. */
export const openDatabase = (url: string, options: DatabaseOptions = {}): Kysely<Database> =>
  new Kysely<Database>({ dialect: new PostgresDialect({ pool: openPool(url, options) }) })

/** The connections alone. */
export function openPool(url: string, { max = 10, waitMs = 10_000 }: DatabaseOptions): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    max,
    keepAlive: true,
    connectionTimeoutMillis: waitMs,
    idleTimeoutMillis: IDLE_MS,
  })
  // A connection that breaks while idle is replaced. One that breaks between two statements of a transaction has nobody
  // listening and would end the process; in both cases the next query reports what is wrong.
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  return pool
}

/** Throws what the server, or the way to it, has against connections. */
export async function connectOnce(db: Kysely<Database>): Promise<void> {
  await sql`select 1`.execute(db)
}
