import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'

/** The kinds of items that are limited per account, named as in error messages. */
export type ItemKind = 'datasets' | 'endpoints' | 'models' | 'API keys'

const ROWS = {
  datasets: (accountId: string) =>
    sql`select 0 as bytes from dataset where account_id = ${accountId} and deleted_at is null`,
  endpoints: (accountId: string) =>
    sql`select listing_bytes as bytes from endpoint where account_id = ${accountId} and deleted_at is null`,
  models: (accountId: string) => sql`select 0 as bytes from model where account_id = ${accountId}`,
  'API keys': (accountId: string) =>
    sql`select 0 as bytes from api_key where account_id = ${accountId} and revoked_at is null`,
} as const satisfies Record<ItemKind, unknown>

/**
 * Counts an account's items of a kind, up to `most`, and the bytes of their schemas and examples. Every kind has an
 * index by account.
 */
export async function countItems(
  db: Kysely<Database>,
  { accountId, kind, most }: { accountId: string; kind: ItemKind; most: number },
): Promise<{ count: number; bytes: number }> {
  const { rows } = await sql<{ count: number; bytes: number }>`
    select count(*) as count, coalesce(sum(bytes), 0)::bigint as bytes
    from (${ROWS[kind](accountId)} limit ${most}) as item`.execute(db)
  return rows[0] ?? { count: 0, bytes: 0 }
}
