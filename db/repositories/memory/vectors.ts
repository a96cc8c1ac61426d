import { type Kysely, sql, type Transaction } from 'kysely'
import type { Database } from '../../tables.ts'
import { lockMemory } from './namespaces.ts'

export interface StoredVector {
  id: string
  /** The version of the entry. */
  version: number
  stored: number
  /** Encrypted; null if a process running an earlier version has just written the row. */
  sealed: Buffer | null
  vector: Buffer | null
}

/** Returns the vectors that were stored in an account's memory later than `after`, in the order they were stored. */
export async function listVectors(
  db: Kysely<Database>,
  {
    accountId,
    namespaceId,
    modelKey,
    after,
    limit,
  }: { accountId: string; namespaceId: string; modelKey: string; after: number; limit: number },
): Promise<StoredVector[]> {
  return db
    .selectFrom('memory_embedding')
    .innerJoin('memory_entry', 'memory_entry.id', 'memory_embedding.entry_id')
    .select([
      'memory_entry.id',
      'memory_entry.version',
      'memory_embedding.stored',
      'memory_embedding.sealed',
      'memory_embedding.vector',
    ])
    .where('memory_entry.account_id', '=', accountId)
    .where('memory_embedding.namespace_id', '=', namespaceId)
    .where('memory_embedding.model_key', '=', modelKey)
    .where('memory_embedding.stored', '>', after)
    .orderBy('memory_embedding.stored')
    .limit(limit)
    .execute()
}

/** An entry that has no vector yet. */
export interface UnembeddedEntry {
  id: string
  namespace_id: string
  account_id: string
  sealed: Buffer
}

/**
 * Temporarily claims entries that have no vector, so that gateways share the work. All belong to one account, drawn at
 * random from the accounts that have any and are not excluded, so that a large import does not delay other accounts.
 */
export async function claimUnembedded(
  db: Kysely<Database>,
  { claimS, limit, except }: { claimS: number; limit: number; except: readonly string[] },
): Promise<UnembeddedEntry[]> {
  const isDue = sql`e.embedded_with is null and e.superseded_by is null
    and (e.embed_until is null or e.embed_until < now())`
  const { rows } = await sql<UnembeddedEntry>`
    with drawn as (
      select n.id from memory_namespace n
      where n.enabled and n.account_id <> all (${except}::uuid[])
        and exists (select from memory_entry e where e.namespace_id = n.id and ${isDue})
      order by random() limit 1
    ), due as (
      select e.id from memory_entry e where e.namespace_id = (select id from drawn) and ${isDue}
      order by e.version limit ${limit} for update skip locked
    )
    update memory_entry e set embed_until = now() + make_interval(secs => ${claimS})
    from due where e.id = due.id
    returning e.id, e.namespace_id, e.account_id, e.sealed`.execute(db)
  return rows
}

/** Reschedules the embedding of a namespace's entries that another model embedded, or that a model refused. */
export async function dropOtherModels(
  db: Kysely<Database>,
  { namespaceId, modelKey }: { namespaceId: string; modelKey: string },
): Promise<void> {
  await db
    .updateTable('memory_entry')
    .set({ embedded_with: null, embed_until: null })
    .where('namespace_id', '=', namespaceId)
    .where((eb) =>
      eb.or([eb('embedded_with', '<>', modelKey), eb('embed_until', '=', sql<Date>`'infinity'`)]),
    )
    .execute()
}

/**
 * Stores vectors for those of an account's entries that still exist, and records the model on them. Entries that the
 * model refused are not retried with it. Safe to repeat.
 */
export async function storeVectors(
  trx: Transaction<Database>,
  {
    accountId,
    modelKey,
    vectors,
    refused = [],
  }: {
    accountId: string
    modelKey: string
    vectors: readonly { id: string; sealed: Buffer }[]
    refused?: readonly string[]
  },
): Promise<void> {
  await lockMemory(trx, accountId)
  await sql`
    insert into memory_embedding (entry_id, namespace_id, model_key, sealed)
    select e.id, e.namespace_id, ${modelKey}, given.sealed
    from unnest(${vectors.map(({ id }) => id)}::uuid[], ${vectors.map(({ sealed }) => sealed)}::bytea[])
      as given(id, sealed) join memory_entry e on e.id = given.id
    where e.account_id = ${accountId}
    on conflict (entry_id, model_key) do nothing`.execute(trx)
  await trx
    .updateTable('memory_entry')
    .set({ embed_until: null, embedded_with: modelKey })
    .where('account_id', '=', accountId)
    .where('id', '=', sql<string>`any(${vectors.map(({ id }) => id)}::uuid[])`)
    .execute()
  await trx
    .updateTable('memory_entry')
    .set({ embed_until: sql<Date>`'infinity'` })
    .where('account_id', '=', accountId)
    .where('id', '=', sql<string>`any(${refused}::uuid[])`)
    .execute()
}

/**
 * Encrypts vectors written by processes running earlier versions; returns how many it encrypted. Safe to repeat, and to
 * run on several gateways at once.
 */
export async function sealVectors(
  db: Kysely<Database>,
  { seal, limit }: { seal: (vector: Buffer, entryId: string) => Buffer; limit: number },
): Promise<number> {
  return db.transaction().execute(async (trx) => {
    const { rows } = await sql<{ entry_id: string; model_key: string; vector: Buffer }>`
      select entry_id, model_key, vector from memory_embedding where vector is not null
      order by entry_id limit ${limit} for update skip locked`.execute(trx)
    if (rows.length === 0) return 0
    await sql`
      update memory_embedding m set sealed = given.sealed, vector = null
      from unnest(${rows.map(({ entry_id }) => entry_id)}::uuid[], ${rows.map(({ model_key }) => model_key)}::text[],
        ${rows.map(({ vector, entry_id }) => seal(vector, entry_id))}::bytea[]) as given(id, model_key, sealed)
      where m.entry_id = given.id and m.model_key = given.model_key`.execute(trx)
    return rows.length
  })
}

/** Lists namespaces whose newest snapshot is for a different embedding model than this one. */
export async function listOtherModels(
  db: Kysely<Database>,
  { modelKey, limit }: { modelKey: string | null; limit: number },
): Promise<{ id: string; account_id: string }[]> {
  const { rows } = await sql<{ id: string; account_id: string }>`
    select n.id, n.account_id from memory_namespace n join memory_snapshot s on s.id = n.snapshot_id
    where n.enabled and n.wanted_build is null and s.model_key is distinct from ${modelKey}
      and not exists (select from memory_snapshot b where b.namespace_id = n.id and b.status = 'building')
    limit ${limit}`.execute(db)
  return rows
}
