import { type Kysely, sql, type Transaction } from 'kysely'
import type { Database } from '../../tables.ts'
import { lockMemory } from './namespaces.ts'

export interface StoredVector {
  id: string
  stored: number
  vector: Buffer
}

/** Returns the vectors that were stored later than `after` in an account's memory, in that order. */
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
    .select(['memory_entry.id', 'memory_embedding.stored', 'memory_embedding.vector'])
    .where('memory_entry.account_id', '=', accountId)
    .where('memory_embedding.namespace_id', '=', namespaceId)
    .where('memory_embedding.model_key', '=', modelKey)
    .where('memory_embedding.stored', '>', after)
    .orderBy('memory_embedding.stored')
    .limit(limit)
    .execute()
}

/** An entry that has no vector yet. */
export interface Unembedded {
  id: string
  namespace_id: string
  account_id: string
  sealed: Buffer
}

/** Claims entries of one account without a vector of this model, for a while, so that gateways share the work. */
export async function claimUnembedded(
  db: Kysely<Database>,
  { modelKey, claimS, limit }: { modelKey: string; claimS: number; limit: number },
): Promise<Unembedded[]> {
  const { rows } = await sql<Unembedded>`
    with due as (
      select e.id, e.account_id from memory_entry e join memory_namespace n on n.id = e.namespace_id
      where n.enabled and e.superseded_by is null and (e.embed_until is null or e.embed_until < now())
        and not exists (select from memory_embedding v where v.entry_id = e.id and v.model_key = ${modelKey})
      order by e.version limit ${limit} for update of e skip locked
    )
    update memory_entry e set embed_until = now() + make_interval(secs => ${claimS})
    from due
    where e.id = due.id and due.account_id = (select account_id from due limit 1)
    returning e.id, e.namespace_id, e.account_id, e.sealed`.execute(db)
  return rows
}

/** Stores vectors of entries of one account that still exist, and ends the claim of these entries. Safe to repeat. */
export async function storeVectors(
  trx: Transaction<Database>,
  {
    accountId,
    modelKey,
    vectors,
  }: { accountId: string; modelKey: string; vectors: readonly { id: string; vector: Buffer }[] },
): Promise<void> {
  await lockMemory(trx, accountId)
  await sql`
    insert into memory_embedding (entry_id, namespace_id, model_key, vector)
    select e.id, e.namespace_id, ${modelKey}, given.vector
    from unnest(${vectors.map(({ id }) => id)}::uuid[], ${vectors.map(({ vector }) => vector)}::bytea[])
      as given(id, vector) join memory_entry e on e.id = given.id
    where e.account_id = ${accountId}
    on conflict (entry_id, model_key) do nothing`.execute(trx)
  await trx
    .updateTable('memory_entry')
    .set({ embed_until: null })
    .where('account_id', '=', accountId)
    .where('id', '=', sql<string>`any(${vectors.map(({ id }) => id)}::uuid[])`)
    .execute()
}

/** Lists namespaces whose newest snapshot is for another model of embeddings than this. */
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
