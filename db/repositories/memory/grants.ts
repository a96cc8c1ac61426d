import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import type { MemoryAccess } from '../../../schemas/memory.ts'
import type { Database } from '../../tables.ts'
import type { ApiKeyRow } from '../../tables/accounts.ts'
import type { MemoryGrantRow } from '../../tables/memory.ts'
import { bumpCache } from '../platform/cache-versions.ts'

/** A live key whose account has memory. */
export interface MemoryKey {
  id: string
  account_id: string
  role: ApiKeyRow['role']
  /** The tools that it is limited to; null when it is not limited. */
  tools: string[] | null
}

/** Returns a live key with its account's namespace; undefined if there is no such key, or no memory. */
export async function findNamespaceOfKey(
  db: Kysely<Database>,
  keyId: string,
): Promise<MemoryKey | undefined> {
  return db
    .selectFrom('api_key')
    .innerJoin('memory_namespace', 'memory_namespace.account_id', 'api_key.account_id')
    .select(['memory_namespace.id', 'memory_namespace.account_id', 'role', 'tools'])
    .where('api_key.id', '=', keyId)
    .where('api_key.revoked_at', 'is', null)
    .executeTakeFirst()
}

/** Grants a key access to its account's memory; an existing grant stays as it is. */
export async function grantMemory(
  trx: Transaction<Database>,
  namespace: { id: string; account_id: string },
  { keyId, access }: { keyId: string; access: MemoryAccess },
): Promise<void> {
  await trx
    .insertInto('memory_grant')
    .values({
      id: newId(),
      namespace_id: namespace.id,
      account_id: namespace.account_id,
      api_key_id: keyId,
      access,
    })
    .onConflict((oc) =>
      oc.columns(['namespace_id', 'api_key_id', 'access']).where('revoked_at', 'is', null).doNothing(),
    )
    .execute()
  await bumpCache(trx, 'memory')
}

/**
 * Revokes a grant; `false` if there is none. Waits for reads in progress, which lock the grant; later reads find it
 * revoked. So nothing more is read once this has committed.
 */
export async function revokeMemory(
  trx: Transaction<Database>,
  { keyId, access, now }: { keyId: string; access: MemoryAccess; now: Date },
): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('memory_grant')
    .set({ revoked_at: now })
    .where('api_key_id', '=', keyId)
    .where('access', '=', access)
    .where('revoked_at', 'is', null)
    .executeTakeFirst()
  await bumpCache(trx, 'memory')
  return numUpdatedRows > 0n
}

/**
 * Returns whether a key has this access to its account's memory and the memory is enabled. In a transaction,
 * revocations wait until it ends.
 */
export async function hasGrant(
  db: Kysely<Database>,
  { accountId, keyId, access }: { accountId: string; keyId: string; access: MemoryAccess },
): Promise<boolean> {
  const row = await db
    .selectFrom('memory_grant')
    .innerJoin('memory_namespace', 'memory_namespace.id', 'memory_grant.namespace_id')
    .select('memory_grant.id')
    .where('memory_grant.account_id', '=', accountId)
    .where('memory_namespace.account_id', '=', accountId)
    .where('memory_namespace.enabled', '=', true)
    .where('api_key_id', '=', keyId)
    .where('access', '=', access)
    .where('revoked_at', 'is', null)
    .$if(db.isTransaction, (qb) => qb.forShare('memory_grant'))
    .executeTakeFirst()
  return row !== undefined
}

/**
 * Returns the query for the namespace that a key may read, with its newest snapshot. It locks grant and namespace until
 * the statement ends, so that a revocation waits for the read.
 */
export const readableBy = ({
  accountId,
  keyId,
}: {
  accountId: string
  keyId: string
}): RawBuilder<unknown> => sql`
  select n.id, n.snapshot_id as newest from memory_grant g
  join memory_namespace n on n.id = g.namespace_id
  join api_key k on k.id = g.api_key_id
  where g.account_id = ${accountId} and n.account_id = ${accountId} and g.api_key_id = ${keyId}
    and g.access = 'read' and g.revoked_at is null and n.enabled and k.revoked_at is null
  for share of g, n`

/** Lists a namespace's live grants, except those to revoked keys. */
export function listGrants(db: Kysely<Database>, namespaceId: string): Promise<MemoryGrantRow[]> {
  return db
    .selectFrom('memory_grant')
    .innerJoin('api_key', 'api_key.id', 'memory_grant.api_key_id')
    .selectAll('memory_grant')
    .where('namespace_id', '=', namespaceId)
    .where('memory_grant.revoked_at', 'is', null)
    .where('api_key.revoked_at', 'is', null)
    .orderBy('memory_grant.created_at')
    .execute()
}

/** The memory that a gateway knows about: an enabled namespace, and the keys with a grant. */
export interface MemoryAccessRow {
  account_id: string
  namespace_id: string
  readers: string[]
  writers: string[]
}

/** Lists every enabled namespace that some key may use. */
export async function listKnownMemory(db: Kysely<Database>): Promise<MemoryAccessRow[]> {
  const { rows } = await sql<MemoryAccessRow>`
    select n.account_id, n.id as namespace_id,
      coalesce(array_agg(g.api_key_id::text) filter (where g.access = 'read'), '{}') as readers,
      coalesce(array_agg(g.api_key_id::text) filter (where g.access = 'write'), '{}') as writers
    from memory_namespace n
    join memory_grant g on g.namespace_id = n.id and g.revoked_at is null
    where n.enabled
    group by n.account_id, n.id`.execute(db)
  return rows
}
