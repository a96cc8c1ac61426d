import { type Kysely, sql } from 'kysely'
import { MAX_TOKENS } from '../../../domain/chat/chat.ts'
import { MAX_INFERENCE_MS } from '../../../schemas/nodes/lease.ts'
import type { Database } from '../../tables.ts'
import { moveLevels } from '../endpoints/levels.ts'

/** The number of rows that one step folds. */
export const FOLD_BATCH = 10_000
const FOLD_LOCK = 7_301_112
/** The number of cohort stages in a delta: a stage's time is counted without a task. */
const STAGES = sql`(enqueued = 0 and succeeded = 0 and failed = 0 and expired = 0 and inference_ms > 0)::int`

/** Totals stop here, below the range of a bigint. */
const MAX_TOTAL = 9_000_000_000_000_000
/** An endpoint's mean latency and failure rate cover about this many of its latest inferences. */
const MEMORY = 100

/** Records the time of an inference that is not a separate request; folding adds it to its endpoint's mean. */
export async function noteLatency(
  db: Kysely<Database>,
  { accountId, endpointId, ms }: { accountId: string; endpointId: string; ms: number },
): Promise<void> {
  await db
    .insertInto('usage_delta')
    .values({ account_id: accountId, endpoint_id: endpointId, inference_ms: ms })
    .execute()
}

/**
 * Adds one batch of usage deltas to the totals of accounts and endpoints, and returns the number of rows. One statement
 * removes a delta and adds it, so each counts once. An advisory lock admits one process at a time; others find nothing
 * to do, so they never deadlock on the totals. A count beyond any real inference, made up by a node or accepted by an
 * earlier version, is capped at the largest possible one, so that it never blocks the others. A delta with only a time
 * belongs to a cohort stage: it is a request to the endpoint, but not one from the account. The endpoints' levels are
 * updated in the same transaction, so none is left behind.
 */
export async function foldUsage(
  db: Kysely<Database>,
  now = new Date(),
): Promise<{ taken: number; absurd: number }> {
  return db.transaction().execute(async (trx) => {
    const lock = await sql<{ got: boolean }>`select pg_try_advisory_xact_lock(${FOLD_LOCK}) as got`.execute(
      trx,
    )
    if (!lock.rows[0]?.got) return { taken: 0, absurd: 0 }
    const { rows } = await sql<{ taken: number; absurd: number; used: string[] }>`
      with taken as (
        delete from usage_delta where id = any(array(
          select id from usage_delta order by id limit ${FOLD_BATCH}
        )) returning *
      ), sound as (
        select account_id, endpoint_id, enqueued, succeeded, failed, expired, created_at, key_id, cost_micro,
          ${STAGES} as stages,
          least(greatest(tokens, 0), greatest(enqueued + succeeded + failed, 1)::bigint * ${MAX_TOKENS}::bigint) as tokens,
          least(greatest(inference_ms, 0), greatest(succeeded, 1) * ${MAX_INFERENCE_MS}::float8) as inference_ms,
          not (tokens >= 0 and tokens <= greatest(enqueued + succeeded + failed, 1)::bigint * ${MAX_TOKENS}::bigint
            and inference_ms >= 0 and inference_ms <= greatest(succeeded, 1) * ${MAX_INFERENCE_MS}::float8) as absurd
        from taken
      ), by_account as (
        select account_id, sum(enqueued) as enqueued, sum(succeeded) as succeeded, sum(failed) as failed,
          sum(expired) as expired
        from sound group by account_id
      ), by_endpoint as (
        select endpoint_id, sum(enqueued + stages) as requests, sum(tokens) as tokens, max(created_at) as used_at,
          sum(succeeded) as succeeded, sum(failed) as failed, sum(succeeded + failed) as ended,
          sum(greatest(succeeded, 1)) filter (where inference_ms > 0) as measured,
          sum(inference_ms) / nullif(sum(greatest(succeeded, 1)) filter (where inference_ms > 0), 0) as mean_ms
        from sound group by endpoint_id
      ), accounts as (
        insert into usage_total as t (account_id, enqueued, succeeded, failed, expired)
        select * from by_account
        on conflict (account_id) do update set enqueued = t.enqueued + excluded.enqueued,
          succeeded = t.succeeded + excluded.succeeded, failed = t.failed + excluded.failed,
          expired = t.expired + excluded.expired
      ), by_key as (
        insert into key_month as k (key_id, month, spent_micro)
        select key_id, date_trunc('month', created_at at time zone 'UTC')::date, sum(cost_micro)
        from sound where key_id is not null and cost_micro <> 0 group by 1, 2
        on conflict (key_id, month) do update set spent_micro = k.spent_micro + excluded.spent_micro
      ), endpoints as (
        update endpoint e set total_requests = e.total_requests + b.requests,
          total_tokens_processed = least(e.total_tokens_processed + b.tokens, ${MAX_TOTAL}::bigint),
          last_used_at = greatest(e.last_used_at, b.used_at),
          latency_ms = coalesce(e.latency_ms + (b.mean_ms - e.latency_ms) * least(1, b.measured / ${MEMORY}::float8),
            b.mean_ms, e.latency_ms),
          succeeded_requests = e.succeeded_requests + b.succeeded,
          failure_share = coalesce(
            e.failure_share + (b.failed / nullif(b.ended, 0)::float8 - e.failure_share) * least(1, b.ended / ${MEMORY}::float8),
            b.failed / nullif(b.ended, 0)::float8, e.failure_share)
        from by_endpoint b where e.id = b.endpoint_id
        returning e.id
      )
      select count(*) as taken, count(*) filter (where absurd) as absurd,
        (select coalesce(array_agg(id), '{}') from endpoints) as used
      from sound`.execute(trx)
    await moveLevels(trx, rows[0]?.used ?? [], now)
    return { taken: Number(rows[0]?.taken ?? 0), absurd: Number(rows[0]?.absurd ?? 0) }
  })
}

/** The counts of an endpoint that are not yet in its totals. */
export interface UnfoldedUse {
  requests: number
  tokens: number
  usedAt: Date | null
}

/** Reads an endpoint's requests of the last few seconds, which are folded into its totals a few times a minute. */
export async function readUnfolded(db: Kysely<Database>, endpointId: string): Promise<UnfoldedUse> {
  const { rows } = await sql<UnfoldedUse>`
    select coalesce(sum(enqueued + ${STAGES}), 0)::bigint as requests,
      least(coalesce(sum(greatest(tokens, 0)), 0), ${MAX_TOTAL}::bigint)::bigint as tokens, max(created_at) as "usedAt"
    from usage_delta where endpoint_id = ${endpointId}`.execute(db)
  const { requests, tokens, usedAt } = rows[0] ?? { requests: 0, tokens: 0, usedAt: null }
  return { requests: Number(requests), tokens: Number(tokens), usedAt }
}
