import { sql, type Transaction } from 'kysely'
import type { Database } from './tables.ts'

/** A transaction that holds the lock longer than this has lost its connection or its machine. */
const LOCK_TIMEOUT_MS = 10_000

/**
 * Locks an account until the transaction ends, across all gateways. A transaction that waits too long for this lock, or
 * for any later one, fails with `55P03`, so that the caller gets an error that it can retry instead of hanging.
 */
export async function lockAccount(
  trx: Transaction<Database>,
  purpose: 'copies' | 'memory' | 'storage' | 'task-quota' | 'unread',
  accountId: string,
): Promise<void> {
  // PostgreSQL evaluates a select list from left to right, so the timeout is set before the lock is taken.
  await sql`select set_config('lock_timeout', ${String(LOCK_TIMEOUT_MS)}, true),
    pg_advisory_xact_lock(hashtextextended(${`${purpose}/${accountId}`}, 0))`.execute(trx)
}
