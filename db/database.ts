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
  /** How long a query waits for a connection. The limit keeps callers from piling up while the server hangs. */
  waitMs?: number
  /** The number of connections that one account's requests may hold; all of them by default. */
  accountShare?: number
}

/**
 * Long enough to keep connections open for loops that poll every few seconds, because a new login costs ten
 * milliseconds of CPU. Short enough to close connections after a burst, because each costs PostgreSQL 3 MB of memory.
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
  // The pool replaces a connection that breaks while idle. One that breaks between two statements of a transaction has
  // no error listener and would end the process. In both cases the next query reports the error.
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  return pool
}

/** Connects once; throws the error if that fails. */
export async function connectOnce(db: Kysely<Database>): Promise<void> {
  await sql`select 1`.execute(db)
}

/** Resolves when the database answers. */
export async function ping(db: Kysely<Database>): Promise<void> {
  await sql`select 1`.execute(db)
}
