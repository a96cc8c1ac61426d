import { type Kysely, sql, type Transaction } from 'kysely'
import type { Database } from '../../tables.ts'
import type { MemoryEntryRow, NewMemoryEntry } from '../../tables/memory.ts'
import { readableBy } from './grants.ts'

export type StoredEntry = Pick<MemoryEntryRow, 'id' | 'sealed' | 'source' | 'created_at' | 'superseded_by'>

const SHOWN = ['id', 'sealed', 'source', 'created_at', 'superseded_by'] as const

/** Counts the entries of a namespace, including superseded ones. */
export async function countEntries(db: Kysely<Database>, namespaceId: string): Promise<number> {
  const { n } = await db
    .selectFrom('memory_entry')
    .select(({ fn }) => fn.countAll<number>().as('n'))
    .where('namespace_id', '=', namespaceId)
    .executeTakeFirstOrThrow()
  return n
}

/**
 * Returns the entries of a namespace, including superseded ones, whose source and estimated tokens are among those
 * given.
 */
export async function listSimilarEntries(
  db: Kysely<Database>,
  { accountId, namespaceId }: { accountId: string; namespaceId: string },
  among: readonly { source: string; tokens: number }[],
): Promise<StoredEntry[]> {
  const { rows } = await sql<StoredEntry>`
    select e.id, e.sealed, e.source, e.created_at, e.superseded_by from memory_entry e
    where e.account_id = ${accountId} and e.namespace_id = ${namespaceId} and (e.source, e.tokens) in (
      select * from unnest(${among.map(({ source }) => source)}::text[], ${among.map(({ tokens }) => tokens)}::int[]))`.execute(
    db,
  )
  return rows
}

/** Adds entries; the caller holds the account's memory lock. */
export async function insertEntries(
  trx: Transaction<Database>,
  entries: readonly NewMemoryEntry[],
): Promise<StoredEntry[]> {
  return trx.insertInto('memory_entry').values(entries).returning(SHOWN).execute()
}

/** Marks an entry as superseded; `false` if the account has no such entry, or it is already superseded. */
export async function supersedeEntry(
  trx: Transaction<Database>,
  { accountId, namespaceId, id, by }: { accountId: string; namespaceId: string; id: string; by: string },
): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('memory_entry')
    .set({ superseded_by: by })
    .where('id', '=', id)
    .where('account_id', '=', accountId)
    .where('namespace_id', '=', namespaceId)
    .where('superseded_by', 'is', null)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Lists a page of an account's entries, newest first, including superseded ones. */
export function listEntries(
  db: Kysely<Database>,
  accountId: string,
  { limit, before }: { limit: number; before: string | undefined },
): Promise<StoredEntry[]> {
  return db
    .selectFrom('memory_entry')
    .select(SHOWN)
    .where('account_id', '=', accountId)
    .$call((qb) => (before === undefined ? qb : qb.where('id', '<', before)))
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
}

/** Deletes one entry of an account; `false` if there is none with this id. */
export async function deleteEntry(
  db: Kysely<Database>,
  { accountId, id }: { accountId: string; id: string },
): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('memory_entry')
    .where('id', '=', id)
    .where('account_id', '=', accountId)
    .executeTakeFirst()
  return numDeletedRows > 0n
}

/** Deletes all entries of an account, and returns how many there were. */
export async function clearEntries(db: Kysely<Database>, accountId: string): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom('memory_entry')
    .where('account_id', '=', accountId)
    .executeTakeFirst()
  return Number(numDeletedRows)
}

/** Returns the entries of an account that are recalled, newest first: all of them, or those with these ids. */
export async function recallEntries(
  db: Kysely<Database>,
  {
    accountId,
    keyId,
    limit,
    ids,
  }: { accountId: string; keyId: string; limit: number; ids?: readonly string[] },
): Promise<StoredEntry[]> {
  const chosen = ids ? sql`and e.id = any(${ids}::uuid[])` : sql``
  const { rows } = await sql<StoredEntry>`
    with granted as materialized (${readableBy({ accountId, keyId })})
    select e.id, e.sealed, e.source, e.created_at, e.superseded_by
    from memory_entry e
    where e.namespace_id = (select id from granted) and e.account_id = ${accountId} and e.superseded_by is null ${chosen}
    order by e.created_at desc, e.id desc limit ${limit}`.execute(db)
  return rows
}
