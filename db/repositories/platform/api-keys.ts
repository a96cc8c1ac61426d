import { hash, randomBytes } from 'node:crypto'
import { type Kysely, sql, type Transaction } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import { TOKEN_PREFIX } from '../../../domain/token-prefixes.ts'
import type { KeyLimits } from '../../../schemas/api-key.ts'
import type { Database } from '../../tables.ts'
import type { ApiKeyRow } from '../../tables/accounts.ts'
import { bumpCache } from './cache-versions.ts'

type Role = ApiKeyRow['role']

/**
 * Returns the digest of a key, which is stored and looked up instead of the key. For a limited key it differs from what
 * gateways of earlier versions compute: they don't enforce limits, so they must not accept these keys.
 */
export const hashApiKey = (key: string): Buffer => Buffer.from(hexHashOfApiKey(key), 'hex')

/** Returns the same digest in hexadecimal, in half the time; every request looks up its key by this digest. */
export const hexHashOfApiKey = (key: string): string =>
  hash('sha256', key.startsWith(TOKEN_PREFIX.limitedApiKey) ? `limited:${key}` : key)

interface NewKey {
  accountId: string
  name: string
  role: Role
  /** The tools that the key is limited to. */
  tools?: readonly string[] | null
  limits?: KeyLimits | null
  expiresAt?: Date | null
}

/** Creates a key. The key's text is returned only here. The first key of an account is always an admin key. */
export async function createApiKey(
  trx: Transaction<Database>,
  { accountId, name, role, tools = null, limits = null, expiresAt = null }: NewKey,
): Promise<{ row: ApiKeyRow; key: string }> {
  await trx
    .selectFrom('account')
    .select('id')
    .where('id', '=', accountId)
    .forNoKeyUpdate()
    .executeTakeFirstOrThrow()
  const other = await trx
    .selectFrom('api_key')
    .select('id')
    .where('account_id', '=', accountId)
    .limit(1)
    .executeTakeFirst()

  const key = `${tools ? TOKEN_PREFIX.limitedApiKey : TOKEN_PREFIX.apiKey}${randomBytes(32).toString('base64url')}`
  const row = await trx
    .insertInto('api_key')
    .values({
      id: newId(),
      account_id: accountId,
      name,
      role: other ? role : 'admin',
      key_hash: hashApiKey(key),
      key_hint: key.slice(-4),
      tools: tools && [...tools],
      limits: limits && JSON.stringify(limits),
      expires_at: expiresAt,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
  return { row, key }
}

export const listApiKeys = (db: Kysely<Database>, accountId: string): Promise<ApiKeyRow[]> =>
  db.selectFrom('api_key').selectAll().where('account_id', '=', accountId).orderBy('id', 'desc').execute()

const MAX_FOUND = 100

/** Finds keys of all accounts by their last four characters, newest first. */
export const findKeysByHint = (db: Kysely<Database>, hint: string): Promise<ApiKeyRow[]> =>
  db
    .selectFrom('api_key')
    .selectAll()
    .where('key_hint', '=', hint)
    .orderBy('id', 'desc')
    .limit(MAX_FOUND)
    .execute()

/** Finds a key of any account, for operators. */
export const findKey = (db: Kysely<Database>, id: string): Promise<ApiKeyRow | undefined> =>
  db.selectFrom('api_key').selectAll().where('id', '=', id).executeTakeFirst()

/** Finds a key and locks its row until the transaction ends. */
export const lockKey = (trx: Transaction<Database>, id: string): Promise<ApiKeyRow | undefined> =>
  trx.selectFrom('api_key').selectAll().where('id', '=', id).forNoKeyUpdate().executeTakeFirst()

/** Finds a key of an account, revoked or not. */
export const findOwnKey = (
  db: Kysely<Database>,
  { id, accountId }: { id: string; accountId: string },
): Promise<ApiKeyRow | undefined> =>
  db
    .selectFrom('api_key')
    .selectAll()
    .where('id', '=', id)
    .where('account_id', '=', accountId)
    .executeTakeFirst()

/** Revokes a key; every gateway drops it within a second. `false` when there is no such live key. */
export async function revokeApiKey(trx: Transaction<Database>, id: string, now: Date): Promise<boolean> {
  const revoked = await trx
    .updateTable('api_key')
    .set({ revoked_at: now })
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .returning('id')
    .executeTakeFirst()
  await bumpCache(trx, 'api_key')
  return revoked !== undefined
}

const CALLER = ['id', 'account_id', 'role', 'key_hash', 'tools', 'limits', 'expires_at'] as const

/** Returns the keys with these hashes that are not revoked; they may have expired. */
export const findApiKeys = (
  db: Kysely<Database>,
  keyHashes: readonly Buffer[],
): Promise<Pick<ApiKeyRow, (typeof CALLER)[number]>[]> =>
  db
    .selectFrom('api_key')
    .select(CALLER)
    .where('key_hash', 'in', keyHashes)
    .where('revoked_at', 'is', null)
    .execute()

/** Returns the live key with this hash. */
export const findApiKey = async (db: Kysely<Database>, keyHash: Buffer) =>
  (await findApiKeys(db, [keyHash])).at(0)

/** Returns when each live key among these expires, in milliseconds; undefined if it never expires. */
export async function listExpiries(
  db: Kysely<Database>,
  ids: readonly string[],
): Promise<Map<string, number | undefined>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('api_key')
    .select(['id', 'expires_at'])
    .where('id', 'in', ids)
    .where('revoked_at', 'is', null)
    .execute()
  return new Map(rows.map(({ id, expires_at }) => [id, expires_at?.getTime()]))
}

/** Records that keys were used now, at most once a minute per key. */
export async function noteUses(db: Kysely<Database>, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return
  await sql`update api_key set last_used_at = now()
    where id = any(array(
      select id from api_key
      where id = any(${ids}::uuid[]) and (last_used_at is null or last_used_at < now() - interval '50 seconds')
      order by id for update skip locked))`.execute(db)
}

/** Locks the keys of an account, to serialize changes that must leave at least one key. */
export async function lockKeys(trx: Transaction<Database>, accountId: string): Promise<void> {
  await trx.selectFrom('account').select('id').where('id', '=', accountId).forNoKeyUpdate().execute()
}

/** Changes to a key; `undefined` leaves a field as it is. */
export interface KeyChange {
  name: string | undefined
  limits: KeyLimits | null | undefined
  expiresAt: Date | null | undefined
}

/** Changes a live key, of this account if one is named; every gateway applies it within a second. */
export async function updateApiKey(
  trx: Transaction<Database>,
  { id, accountId }: { id: string; accountId?: string },
  { name, limits, expiresAt }: KeyChange,
): Promise<ApiKeyRow | undefined> {
  const row = await trx
    .updateTable('api_key')
    .set((eb) => ({
      name: name ?? eb.ref('name'),
      ...(limits !== undefined && { limits: limits && JSON.stringify(limits) }),
      ...(expiresAt !== undefined && { expires_at: expiresAt }),
    }))
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .$call((qb) => (accountId === undefined ? qb : qb.where('account_id', '=', accountId)))
    .returningAll()
    .executeTakeFirst()
  await bumpCache(trx, 'api_key')
  return row
}

/** Returns whether an account has an admin key that lasts: live, without an expiry and without limits. */
export async function hasLastingAdminKey(db: Kysely<Database>, accountId: string): Promise<boolean> {
  const row = await db
    .selectFrom('api_key')
    .select('id')
    .where('account_id', '=', accountId)
    .where('role', '=', 'admin')
    .where('revoked_at', 'is', null)
    .where('expires_at', 'is', null)
    .where('tools', 'is', null)
    .where('limits', 'is', null)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}
