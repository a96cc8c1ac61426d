import { hash, randomBytes } from 'node:crypto'
import type { Kysely, Transaction } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import type { Database } from '../../tables.ts'
import type { ApiKeyRow } from '../../tables/accounts.ts'
import { bumpCache } from './cache-versions.ts'

type Role = ApiKeyRow['role']

const PREFIX = 'hk_'
const LIMITED_PREFIX = 'hkl_'

/**
 * Returns the digest of a key, which is stored and looked up in its place. That of a limited key differs from what
 * gateways of earlier versions compute: they know no limits, so they must not know these keys.
 */
export const hashApiKey = (key: string): Buffer =>
  hash('sha256', key.startsWith(LIMITED_PREFIX) ? `limited:${key}` : key, 'buffer')

interface NewKey {
  accountId: string
  name: string
  role: Role
  /** The tools that the key is limited to. */
  tools?: readonly string[] | null
}

/** Creates a key. Its text is returned here and nowhere else. The first key of an account is always an admin key. */
export async function createApiKey(
  trx: Transaction<Database>,
  { accountId, name, role, tools = null }: NewKey,
): Promise<{ row: ApiKeyRow; key: string }> {
  await trx
    .selectFrom('account')
    .select('id')
    .where('id', '=', accountId)
    .forUpdate()
    .executeTakeFirstOrThrow()
  const other = await trx
    .selectFrom('api_key')
    .select('id')
    .where('account_id', '=', accountId)
    .limit(1)
    .executeTakeFirst()

  const key = `${tools ? LIMITED_PREFIX : PREFIX}${randomBytes(32).toString('base64url')}`
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
    })
    .returningAll()
    .executeTakeFirstOrThrow()
  return { row, key }
}

export const listApiKeys = (db: Kysely<Database>, accountId: string): Promise<ApiKeyRow[]> =>
  db.selectFrom('api_key').selectAll().where('account_id', '=', accountId).orderBy('id', 'desc').execute()

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

/** Returns the live keys with these hashes. */
export const findApiKeys = (
  db: Kysely<Database>,
  keyHashes: readonly Buffer[],
): Promise<Pick<ApiKeyRow, 'id' | 'account_id' | 'role' | 'key_hash' | 'tools'>[]> =>
  db
    .selectFrom('api_key')
    .select(['id', 'account_id', 'role', 'key_hash', 'tools'])
    .where('key_hash', 'in', keyHashes)
    .where('revoked_at', 'is', null)
    .execute()

/** Returns the live key with this hash. */
export const findApiKey = async (db: Kysely<Database>, keyHash: Buffer) =>
  (await findApiKeys(db, [keyHash])).at(0)
