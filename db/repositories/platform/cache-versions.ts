import { sql, type Transaction } from 'kysely'
import type { Database } from '../../tables.ts'
import type { CacheVersionTable } from '../../tables/accounts.ts'

/** The channel for changes of cached tables; the payload is the name of the cache. */
export const CACHE_CHANNEL = 'hearth_cache'

/** Must be called in the transaction that changes a cached table; readers drop their cached data once it commits. */
export async function bumpCache(trx: Transaction<Database>, name: CacheVersionTable['name']): Promise<void> {
  await trx
    .updateTable('cache_version')
    .set({ version: sql<number>`version + 1` })
    .where('name', '=', name)
    .execute()
  await sql`select pg_notify(${CACHE_CHANNEL}, ${name})`.execute(trx)
}
