import { type Kysely, sql, type Transaction } from 'kysely'
import type { Database } from '../../tables.ts'

/** A request that must have one outcome; `operation` holds the operation id and its path parameters. */
export interface IdempotencyId {
  accountId: string
  operation: string
  key: string
}

export interface StoredReply {
  bodyDigest: Buffer
  status: number
  reply: Buffer
}

const WINDOW = sql<Date>`now() - interval '24 hours'`

/** Returns the reply that was committed under a key in the last 24 hours. */
export async function findReply(
  db: Kysely<Database>,
  { accountId, operation, key }: IdempotencyId,
): Promise<StoredReply | undefined> {
  const row = await db
    .selectFrom('idempotency')
    .select(['body_digest', 'status', 'reply'])
    .where('account_id', '=', accountId)
    .where('operation', '=', operation)
    .where('key', '=', key)
    .where('created_at', '>', WINDOW)
    .executeTakeFirst()
  if (!row || row.status === null || row.reply === null) return undefined
  return { bodyDigest: row.body_digest, status: row.status, reply: row.reply }
}

/**
 * Reserves a key in the transaction that does the work. Waits if another transaction holds it; `false` once that
 * transaction has committed, so that its reply can be read.
 */
export async function takeKey(
  trx: Transaction<Database>,
  { accountId, operation, key }: IdempotencyId,
  bodyDigest: Buffer,
): Promise<boolean> {
  const taken = await trx
    .insertInto('idempotency')
    .values({ account_id: accountId, operation, key, body_digest: bodyDigest })
    .onConflict((oc) =>
      oc
        .columns(['account_id', 'operation', 'key'])
        .doUpdateSet({ body_digest: bodyDigest, status: null, reply: null, created_at: sql`now()` })
        .where('idempotency.created_at', '<=', WINDOW),
    )
    .returning('key')
    .executeTakeFirst()
  return taken !== undefined
}

/** Stores the reply in the same transaction as the work. */
export async function storeReply(
  trx: Transaction<Database>,
  { accountId, operation, key }: IdempotencyId,
  { status, reply }: { status: number; reply: Buffer },
): Promise<void> {
  await trx
    .updateTable('idempotency')
    .set({ status, reply })
    .where('account_id', '=', accountId)
    .where('operation', '=', operation)
    .where('key', '=', key)
    .execute()
}

/** Releases a key, for a response that is not stored. */
export async function releaseKey(
  trx: Transaction<Database>,
  { accountId, operation, key }: IdempotencyId,
): Promise<void> {
  await trx
    .deleteFrom('idempotency')
    .where('account_id', '=', accountId)
    .where('operation', '=', operation)
    .where('key', '=', key)
    .execute()
}
