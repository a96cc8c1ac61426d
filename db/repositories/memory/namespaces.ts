import { type Kysely, sql, type Transaction } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import { lockAccount } from '../../account-lock.ts'
import type { Database } from '../../tables.ts'
import type { MemoryNamespaceRow, MemorySnapshotRow } from '../../tables/memory.ts'
import { bumpCache } from '../platform/cache-versions.ts'

/** Returns an account's namespace, even if it is disabled. */
export function findNamespace(
  db: Kysely<Database>,
  accountId: string,
): Promise<MemoryNamespaceRow | undefined> {
  return db.selectFrom('memory_namespace').selectAll().where('account_id', '=', accountId).executeTakeFirst()
}

/** Like `findNamespace`, but also locks it: disabling or removing it waits until the transaction ends. */
export function lockNamespace(
  trx: Transaction<Database>,
  accountId: string,
): Promise<MemoryNamespaceRow | undefined> {
  return trx
    .selectFrom('memory_namespace')
    .selectAll()
    .where('account_id', '=', accountId)
    .forNoKeyUpdate()
    .executeTakeFirst()
}

/** Enables an account's memory. The namespace is created once, and reused when memory is enabled again. */
export async function enableNamespace(
  trx: Transaction<Database>,
  accountId: string,
): Promise<MemoryNamespaceRow> {
  const row = await trx
    .insertInto('memory_namespace')
    .values({ id: newId(), account_id: accountId })
    .onConflict((oc) => oc.column('account_id').doUpdateSet({ enabled: true }))
    .returningAll()
    .executeTakeFirstOrThrow()
  await bumpCache(trx, 'memory')
  return row
}

/** Disables an account's memory after waiting for reads in progress; `false` if it has none. */
export async function disableNamespace(trx: Transaction<Database>, accountId: string): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('memory_namespace')
    .set({ enabled: false })
    .where('account_id', '=', accountId)
    .executeTakeFirst()
  await bumpCache(trx, 'memory')
  return numUpdatedRows > 0n
}

/**
 * Removes an account's namespace with everything in it, after waiting for reads in progress; `false` if it has none.
 */
export async function removeNamespace(trx: Transaction<Database>, accountId: string): Promise<boolean> {
  await lockMemory(trx, accountId)
  // Readers lock their grant first and the namespace second, so use the same order.
  await trx.deleteFrom('memory_grant').where('account_id', '=', accountId).execute()
  const { numDeletedRows } = await trx
    .deleteFrom('memory_namespace')
    .where('account_id', '=', accountId)
    .executeTakeFirst()
  await bumpCache(trx, 'memory')
  return numDeletedRows > 0n
}

/** Serializes writes to an account's memory, so that versions become visible in order. */
export const lockMemory = (trx: Transaction<Database>, accountId: string): Promise<void> =>
  lockAccount(trx, 'memory', accountId)

/**
 * Requests a snapshot. Returns its number, or undefined if a snapshot requested earlier will include this change
 * because it has not frozen its entries yet.
 */
export async function wantSnapshot(
  trx: Transaction<Database>,
  namespaceId: string,
): Promise<number | undefined> {
  const row = await trx
    .updateTable('memory_namespace')
    .set({
      builds: sql<number>`builds + 1`,
      wanted_build: sql<number>`builds + 1`,
      wanted_at: sql<Date>`now()`,
    })
    .where('id', '=', namespaceId)
    .where('wanted_build', 'is', null)
    .returning('builds')
    .executeTakeFirst()
  return row?.builds
}

/** An account's memory with its newest ready snapshot, the counts and whether a snapshot is being built. */
export interface NamespaceView {
  namespace: MemoryNamespaceRow
  snapshot: MemorySnapshotRow | undefined
  entries: number
  isBuilding: boolean
}

/** Returns what operators and the status route see of an account's memory. */
export async function viewNamespace(
  db: Kysely<Database>,
  accountId: string,
): Promise<NamespaceView | undefined> {
  const namespace = await findNamespace(db, accountId)
  if (!namespace) return undefined
  const { rows } = await sql<{ entries: number; building: boolean }>`
    select (select count(*)::int from memory_entry
        where namespace_id = ${namespace.id} and superseded_by is null) as entries,
      exists (select from memory_snapshot
        where namespace_id = ${namespace.id} and status = 'building') as building`.execute(db)
  const snapshot =
    namespace.snapshot_id === null
      ? undefined
      : await db
          .selectFrom('memory_snapshot')
          .selectAll()
          .where('id', '=', namespace.snapshot_id)
          .where('account_id', '=', accountId)
          .executeTakeFirst()
  return {
    namespace,
    snapshot,
    entries: rows[0]?.entries ?? 0,
    isBuilding: rows[0]?.building ?? false,
  }
}

/** Lists a page of namespaces, newest first. */
export function listNamespaces(
  db: Kysely<Database>,
  { limit, before }: { limit: number; before: string | undefined },
): Promise<MemoryNamespaceRow[]> {
  return db
    .selectFrom('memory_namespace')
    .selectAll()
    .$call((qb) => (before === undefined ? qb : qb.where('id', '<', before)))
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
}
