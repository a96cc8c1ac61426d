import { sql, type Transaction } from 'kysely'
import type { Database } from './tables.ts'

/** Whoever holds a lock this long has lost its way to the database, or its machine. */
const LONGEST_MS = 10_000

/**
 * Lets one transaction of an account at a time go on, whichever gateway it is of, until it ends. One that waits too long, here
 * or for any lock after it, fails with `55P03`: the account is told to try again instead of nothing.
 */
export async function lockAccount(
  trx: Transaction<Database>,
  purpose: 'task-quota' | 'unread',
  accountId: string,
): Promise<void> {
  await sql`select set_config('lock_timeout', ${String(LONGEST_MS)}, true)`.execute(trx)
  await sql`select pg_advisory_xact_lock(hashtextextended(${`${purpose}/${accountId}`}, 0))`.execute(trx)
}
