import { setTimeout as sleep } from 'node:timers/promises'
import type { Kysely, Transaction } from 'kysely'
import { isSerializationFailure } from './errors.ts'
import type { Database } from './tables.ts'

const MAX_ATTEMPTS = 5
/** The pause after the first failure; each later pause is twice as long, and half of each is random. */
const FIRST_DELAY_MS = 10

/**
 * Runs a transaction, and retries it if PostgreSQL aborts it because of a deadlock or a serialization failure. `work`
 * must have no effects outside the transaction, and must reset any state that it holds in memory. Where all rows are
 * known, we take locks in an order that avoids deadlocks; this is for the other cases.
 */
export async function retryTransaction<T>(
  db: Kysely<Database>,
  work: (trx: Transaction<Database>) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await db.transaction().execute(work)
    } catch (err) {
      if (!isSerializationFailure(err) || attempt === MAX_ATTEMPTS) throw err
    }
    // Without the random part, the transactions that deadlocked would collide again.
    const delayMs = FIRST_DELAY_MS * 2 ** (attempt - 1)
    await sleep(delayMs * (0.5 + Math.random() / 2))
  }
}
