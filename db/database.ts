import { Kysely, PostgresDialect, type PostgresPool, sql } from 'kysely'
import pg from 'pg'
import { sharedPool } from './account-share.ts'
import { PreparingClient } from './preparing-client.ts'
import type { Database } from './tables.ts'

const INT8 = 20
// Counts, byte sizes and micro-credits all stay far below 2^53.
pg.types.setTypeParser(INT8, Number)

export interface DatabaseOptions {
  /** The largest number of connections. */
  max?: number
  /** The time that a query waits for a connection, so that callers do not pile up while the server hangs. */
  waitMs?: number
  /** The number of connections that the requests of one account may hold; all of them by default. */
  accountShare?: number
}

/**
 * Idle connections stay open for loops that poll every few seconds, because a new login costs ten milliseconds of CPU;
 * those of a burst are closed, because each costs 3 MB of PostgreSQL's memory.
 */
const IDLE_TIMEOUT_MS = 20_000

/** A pool of connections to the platform's database; `destroy()` closes it. */
export const openDatabase = (url: string, options: DatabaseOptions = {}): Kysely<Database> =>
  new Kysely<Database>({ dialect: new PostgresDialect({ pool: poolOf(url, options) }) })

function poolOf(url: string, options: DatabaseOptions): PostgresPool {
  const pool = openPool(url, options)
  return options.accountShare === undefined ? pool : sharedPool(pool, options.accountShare)
}

/** Opens only the pool of connections. */
export function openPool(url: string, { max = 10, waitMs = 10_000 }: DatabaseOptions): pg.Pool {
  const pool = new pg.Pool({
    Client: PreparingClient,
    connectionString: url,
    max,
    keepAlive: true,
    connectionTimeoutMillis: waitMs,
    idleTimeoutMillis: IDLE_TIMEOUT_MS,
  })
  // A connection that breaks while idle is replaced. One that breaks between two statements of a transaction has no
  // error listener and would end the process. In both cases the next query reports the error.
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  return pool
}

/** Throws the error that prevents a connection. */
export async function connectOnce(db: Kysely<Database>): Promise<void> {
  await sql`select 1`.execute(db)
}

/** Resolves when the database answers. */
export async function ping(db: Kysely<Database>): Promise<void> {
  await sql`select 1`.execute(db)
}
