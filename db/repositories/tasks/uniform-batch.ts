import type { Executor } from '../../prepared-pool.ts'
import {
  countedOf,
  FRESH_COLUMNS,
  freshParameters,
  payloadOf,
  runWrite,
  type TaskEntry,
  type TaskTemplate,
} from './entry.ts'

/** The effects of a task cannot exist before the task, so only the insert of the task can conflict. */
const INSERT = `with fresh as (
    select * from unnest($1::uuid[], $2::float8[], $3::float8[], $4::float8[], $5::float8[], $6::bigint[], $7::bigint[],
      $8::bytea[], $9::bytea[], $10::text[]) as t(${FRESH_COLUMNS})
  ), inserted as (
    insert into task (id, account_id, endpoint_id, status, surface, model_key, model_state, price_micro, node_id, gateway_id,
      input, result, error, inference_time_ms, created_at, started_at, completed_at, key_id, tokens_in, tokens_out)
    select id, $11::uuid, $12::uuid, $13::text, $14::text, $15::text, $16::text, $17::bigint, $18::uuid, $19::uuid,
      input, result, error, inference_time_ms, to_timestamp(created_ms / 1000), to_timestamp(started_ms / 1000),
      to_timestamp(completed_ms / 1000), $26::uuid, ${countedOf('fresh', 'tokens_in')}, ${countedOf('fresh', 'tokens_out')}
    from fresh
    on conflict (id) do nothing
    returning id, completed_at
  ), written as (
    select id, completed_at as at, tokens_in + tokens_out as tokens, inference_time_ms from inserted join fresh using (id)
  ), ledger as (
    insert into ledger_transfer (task_id, kind, from_purse, to_purse, amount_micro)
    select id, line.* from written, unnest($20::text[], $21::text[], $22::text[], $23::bigint[]) as line
  ), events as (
    insert into event (id, account_id, type, resource_id, payload, created_at)
    select event_id, $11, $24, id, ${payloadOf('$25::text')}, at
    from (select uuidv7() as event_id, id, at from written where $24::text is not null) as new_event
  ), counted as (
    insert into usage_delta (account_id, endpoint_id, enqueued, succeeded, failed, tokens, inference_ms, key_id, cost_micro)
    select $11, $12, count(*), case $13 when 'succeeded' then count(*) else 0 end,
      case $13 when 'failed' then count(*) else 0 end, sum(tokens),
      case $13 when 'succeeded' then coalesce(sum(inference_time_ms), 0) else 0 end,
      $26, case $13 when 'failed' then 0 else $17 * count(*) end
    from written having count(*) > 0
  )
  select count(*) as written from written`

/**
 * Inserts tasks that share one template as `insertTasks` does: a single task, or a batch for a busy endpoint. The
 * statement does not join a table of templates, which makes it cheaper than the general one.
 */
export async function insertUniformBatch(
  db: Executor,
  template: TaskTemplate,
  entries: readonly TaskEntry[],
): Promise<number> {
  const { transfers, event } = template
  const parameters = [
    ...freshParameters(entries),
    template.account_id,
    template.endpoint_id,
    template.status,
    template.surface,
    template.model_key,
    template.model_state,
    template.price_micro,
    template.node_id,
    template.gateway_id,
    transfers.map(({ kind }) => kind),
    transfers.map(({ from }) => from),
    transfers.map(({ to }) => to),
    transfers.map(({ amount_micro }) => amount_micro),
    event?.type ?? null,
    event?.payload ?? null,
    template.key_id,
  ]
  return runWrite(db, INSERT, parameters)
}
