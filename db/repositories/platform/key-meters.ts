import { type Kysely, sql, type Transaction } from 'kysely'
import type { Database } from '../../tables.ts'

/** The requests and tokens that a gateway has admitted for a key in the current minute. */
export interface KeyUse {
  keyId: string
  requests: number
  tokens: number
}

/** The cost of requests that a gateway has admitted for a key but not booked yet. */
export interface KeyHold {
  keyId: string
  heldMicro: number
}

/**
 * A key's usage in a minute across all gateways, its spending this month, and the other gateways' holds for requests
 * that are not booked yet.
 */
export interface KeyReading {
  key_id: string
  requests: number
  tokens: number
  spent_micro: number
  others_micro: number
}

/** Adds these uses to the counts of a minute; keys are locked in order, so gateways never deadlock. */
export async function addUses(db: Kysely<Database>, uses: readonly KeyUse[], minute: Date): Promise<void> {
  if (uses.length === 0) return
  const sorted = uses.toSorted((a, b) => (a.keyId < b.keyId ? -1 : 1))
  await sql`insert into key_minute as k (key_id, minute, requests, tokens)
    select id, ${minute}::timestamptz, requests, tokens
    from unnest(${sorted.map(({ keyId }) => keyId)}::uuid[], ${sorted.map(({ requests }) => requests)}::bigint[],
      ${sorted.map(({ tokens }) => tokens)}::bigint[]) as given(id, requests, tokens)
    on conflict (key_id, minute) do update
      set requests = k.requests + excluded.requests, tokens = k.tokens + excluded.tokens`.execute(db)
}

/** Adds the tokens of work that a workflow ran to its key, if the key has a token limit. */
export async function addTokens(
  trx: Transaction<Database>,
  keyId: string,
  { tokens, now }: { tokens: number; now: Date },
): Promise<void> {
  await sql`insert into key_minute as k (key_id, minute, tokens)
    select id, date_trunc('minute', ${now}::timestamptz), ${tokens} from api_key
    where id = ${keyId} and limits ? 'tokens_per_minute'
    on conflict (key_id, minute) do update set tokens = k.tokens + excluded.tokens`.execute(trx)
}

/** Replaces a gateway's holds for keys. */
export async function writeHolds(
  db: Kysely<Database>,
  gatewayId: string,
  holds: readonly KeyHold[],
): Promise<void> {
  const releasedKeys = holds.filter(({ heldMicro }) => heldMicro === 0).map(({ keyId }) => keyId)
  const held = holds.filter(({ heldMicro }) => heldMicro !== 0)
  if (releasedKeys.length > 0)
    await sql`delete from key_hold where gateway_id = ${gatewayId} and key_id = any(${releasedKeys}::uuid[])`.execute(
      db,
    )
  if (held.length > 0)
    await sql`insert into key_hold (key_id, gateway_id, held_micro)
      select id, ${gatewayId}::uuid, micro
      from unnest(${held.map(({ keyId }) => keyId)}::uuid[], ${held.map(({ heldMicro }) => heldMicro)}::bigint[])
        as given(id, micro)
      on conflict (key_id, gateway_id) do update set held_micro = excluded.held_micro`.execute(db)
}

/**
 * Reads the meters of keys in one statement. A month's cost is the sum of folded and unfolded costs; a single statement
 * ensures that no cost is counted twice during a concurrent fold.
 */
export async function readMeters(
  db: Kysely<Database>,
  keyIds: readonly string[],
  { minute, gatewayId }: { minute: Date; gatewayId: string },
): Promise<KeyReading[]> {
  if (keyIds.length === 0) return []
  const { rows } = await sql<KeyReading>`
    select k.id as key_id, coalesce(m.requests, 0)::bigint as requests, coalesce(m.tokens, 0)::bigint as tokens,
      case when k.limits ? 'budget_credits_per_month' then coalesce(p.spent_micro, 0) + (
        select coalesce(sum(d.cost_micro), 0) from usage_delta d
        where d.account_id = k.account_id and d.key_id = k.id
          and d.created_at >= date_trunc('month', ${minute}::timestamptz, 'UTC')
      ) else 0 end::bigint as spent_micro,
      coalesce((
        select sum(h.held_micro) from key_hold h join gateway g on g.id = h.gateway_id
        where h.key_id = k.id and h.gateway_id <> ${gatewayId}::uuid and g.lease_expires_at > now()
      ), 0)::bigint as others_micro
    from api_key k
    left join key_minute m on m.key_id = k.id and m.minute = ${minute}::timestamptz
    left join key_month p on p.key_id = k.id
      and p.month = date_trunc('month', ${minute}::timestamptz at time zone 'UTC')::date
    where k.id = any(${keyIds}::uuid[])`.execute(db)
  return rows
}
