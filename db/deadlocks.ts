import type { Kysely, Transaction } from 'kysely'
import { isDeadlock } from './errors.ts'
import type { Database } from './tables.ts'

const ATTEMPTS = 3

/**
 * Runs a transaction, and runs it again if PostgreSQL has ended it because of a deadlock: for work that locks several
 * rows and cannot know all of them before it has locked the first.
 */
export async function againAfterDeadlock<T>(
  db: Kysely<Database>,
  work: (trx: Transaction<Database>) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await db.transaction().execute(work)
    } catch (err) {
      if (!isDeadlock(err) || attempt === ATTEMPTS) throw err
    }
  }
}
