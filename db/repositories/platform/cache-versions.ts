import { sql, type Transaction } from 'kysely'
import type { Database } from '../../tables.ts'
import type { CacheVersionTable } from '../../tables/accounts.ts'

/** The channel on which every change of a cached table is announced; the payload is the cache's name. */
export const CACHE_CHANNEL = 'hearth_cache'

/** Call in the transaction that changes a cached table: readers drop what they hold once it commits. */
export async function bumpCache(trx: Transaction<Database>, name: CacheVersionTable['name']): Promise<void> {
  await trx
    .updateTable('cache_version')
    .set({ version: sql<number>`version + 1` })
    .where('name', '=', name)
    .execute()
  await sql`select pg_notify(${CACHE_CHANNEL}, ${name})`.execute(trx)
}
