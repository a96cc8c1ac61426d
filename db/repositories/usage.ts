import { type Kysely, sql } from 'kysely'
import type { Database } from '../tables.ts'

/** Rows that one step folds. */
export const FOLD_BATCH = 10_000
const FOLD_LOCK = 7_301_112
/** How many of its last inferences the mean latency of an endpoint goes by, about. */
const LATENCY_MEMORY = 100

/**
 * Adds one batch of appended counts to the account's and the endpoint's totals and says how many rows it took. Each
 * delta counts once: taking it out and adding it up is one statement. One folder works at a time; another one finds
 * nothing to do, so two never wait for each other's totals in a circle.
 */
export async function foldUsage(db: Kysely<Database>): Promise<number> {
  return db.transaction().execute(async (trx) => {
    const lock = await sql<{ got: boolean }>`select pg_try_advisory_xact_lock(${FOLD_LOCK}) as got`.execute(
      trx,
    )
    if (!lock.rows[0]?.got) return 0
    const { rows } = await sql<{ taken: number }>`
      with taken as (
        delete from usage_delta where id = any(array(
          select id from usage_delta order by id limit ${FOLD_BATCH}
        )) returning *
      ), by_account as (
        select account_id, sum(enqueued) as enqueued, sum(succeeded) as succeeded, sum(failed) as failed,
          sum(expired) as expired
        from taken group by account_id
      ), by_endpoint as (
        select endpoint_id, sum(enqueued) as requests, sum(tokens) as tokens, max(created_at) as used_at,
          sum(succeeded) filter (where inference_ms > 0) as measured,
          sum(inference_ms) / nullif(sum(succeeded) filter (where inference_ms > 0), 0) as mean_ms
        from taken group by endpoint_id
      ), accounts as (
        insert into usage_total as t (account_id, enqueued, succeeded, failed, expired)
        select * from by_account
        on conflict (account_id) do update set enqueued = t.enqueued + excluded.enqueued,
          succeeded = t.succeeded + excluded.succeeded, failed = t.failed + excluded.failed,
          expired = t.expired + excluded.expired
      ), endpoints as (
        update endpoint e set total_requests = e.total_requests + b.requests,
          total_tokens_processed = e.total_tokens_processed + b.tokens,
          last_used_at = greatest(e.last_used_at, b.used_at),
          latency_ms = coalesce(e.latency_ms + (b.mean_ms - e.latency_ms) * least(1, b.measured / ${LATENCY_MEMORY}::float8),
            b.mean_ms, e.latency_ms)
        from by_endpoint b where e.id = b.endpoint_id
      )
      select count(*) as taken from taken`.execute(trx)
    return Number(rows[0]?.taken ?? 0)
  })
}
