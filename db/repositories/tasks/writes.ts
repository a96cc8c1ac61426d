import { storable } from '../../../domain/storable-text.ts'
import { bareArray, bytesOrNull, textsOrNull } from '../../array-params.ts'
import type { Executor } from '../../prepared-pool.ts'
import { DUE_AGAIN, type WorkflowStart } from '../platform/workflow-starts.ts'
import {
  countedOf,
  type TaskEffects,
  FRESH_COLUMNS,
  freshParameters,
  payloadOf,
  runWrite,
  type Settlement,
  type TemplateColumn,
  type TaskEntry,
} from './entry.ts'
import { insertInvocationEvents } from './invocation-events.ts'
import { insertUniformBatch } from './uniform-batch.ts'

/** The channel for ended tasks; the payload is the task's id. */
export const TASK_CHANNEL = 'hearth_task'

/** The ledger lines and events of the tasks in `written`, where `effects` is the 1-based index of a task's effects. */
const WRITE_EFFECTS = `ledger as (
    insert into ledger_transfer (task_id, kind, from_purse, to_purse, amount_micro)
    select written.id, line.kind, line.from_purse, line.to_purse, line.amount_micro
    from written join unnest($1::int[], $2::text[], $3::text[], $4::text[], $5::bigint[])
      as line(effects, kind, from_purse, to_purse, amount_micro) using (effects)
    on conflict (task_id, kind) do nothing
  ), events as (
    insert into event (id, account_id, type, resource_id, payload, created_at)
    select event_id, account_id, type, id, ${payloadOf('payload')}, at
    from (
      select uuidv7() as event_id, written.*, form.type, form.payload
      from written join unnest($6::text[], $7::text[]) with ordinality as form(type, payload, effects) using (effects)
      where form.type is not null
    ) as new_event
    on conflict (resource_id, type) do nothing
  )`

/** The sum of the inference times of all tasks that succeeded. */
const INFERENCE_MS = "coalesce(sum(inference_time_ms) filter (where status = 'succeeded'), 0)"
/**
 * The same sum without cohorts: a cohort's time covers its whole graph including loads, and its stages report their own
 * times.
 */
const SETTLED_MS =
  "coalesce(sum(inference_time_ms) filter (where status = 'succeeded' and surface <> 'cohort'), 0)"

const INSERT = `with fresh as (
    select * from unnest($8::uuid[], $9::float8[], $10::float8[], $11::float8[], $12::float8[], $13::bigint[], $14::bigint[],
      $15::bytea[], $16::bytea[], $17::text[], $18::int[]) as t(${FRESH_COLUMNS}, template)
  ), templates as (
    select * from unnest($19::uuid[], $20::uuid[], $21::text[], $22::text[], $23::text[], $24::text[], $25::bigint[],
      $26::uuid[], $27::uuid[], $28::uuid[]) with ordinality
      as t(account_id, endpoint_id, status, surface, model_key, model_state, price_micro, node_id, gateway_id, key_id, template)
  ), inserted as (
    insert into task (id, account_id, endpoint_id, status, surface, model_key, model_state, price_micro, node_id, gateway_id,
      input, result, error, inference_time_ms, created_at, started_at, completed_at, key_id, tokens_in, tokens_out)
    select id, account_id, endpoint_id, status, surface, model_key, model_state, price_micro, node_id, gateway_id,
      input, result, error, inference_time_ms, to_timestamp(created_ms / 1000), to_timestamp(started_ms / 1000),
      to_timestamp(completed_ms / 1000), key_id, ${countedOf('fresh', 'tokens_in')}, ${countedOf('fresh', 'tokens_out')}
    from fresh join templates using (template)
    on conflict (id) do nothing
    returning id, account_id, endpoint_id, status, completed_at, key_id, price_micro
  ), written as (
    select inserted.id, inserted.account_id, inserted.endpoint_id, inserted.status, inserted.completed_at as at, template as effects,
      tokens_in + tokens_out as tokens, inference_time_ms, created_ms, inserted.key_id, inserted.price_micro
    from inserted join fresh using (id)
  ), ${WRITE_EFFECTS}, counted as (
    insert into usage_delta (account_id, endpoint_id, enqueued, succeeded, failed, tokens, inference_ms, key_id, cost_micro)
    select account_id, endpoint_id, count(*), count(*) filter (where status = 'succeeded'),
      count(*) filter (where status = 'failed'), sum(tokens), ${INFERENCE_MS}, key_id,
      coalesce(sum(price_micro) filter (where status <> 'failed'), 0)
    from written group by account_id, endpoint_id, key_id
  )`
const INVOCATIONS = `, invocations as (
    insert into invocation (id, account_id, slug, kind, task_id, created_at, ended)
    select given.id, written.account_id, given.slug, given.kind, written.id, to_timestamp(written.created_ms / 1000),
      written.status in ('succeeded', 'failed')
    from written join unnest($29::uuid[], $30::uuid[], $31::text[], $32::text[]) as given(id, task_id, slug, kind)
      on given.task_id = written.id
    returning id, task_id, account_id, ended
  ), ended_invocations as (
    select invocations.id, invocations.account_id, written.at, written.status
    from invocations join written on written.id = invocations.task_id
    where invocations.ended
  ), invocation_events as (${insertInvocationEvents('ended_invocations')})`
const WRITTEN = ' select count(*) as written from written'

/** The starts' parameters follow the preceding statement's `count` parameters. */
const enqueuing = (count: number) => `, enqueued as (
    insert into workflow_start (workflow_id, workflow, task_queue, args, options)
    select workflow_id, workflow, task_queue, args, options
    from unnest($${count + 1}::text[], $${count + 2}::text[], $${count + 3}::text[], $${count + 4}::jsonb[], $${count + 5}::jsonb[])
      as start(workflow_id, workflow, task_queue, args, options)
    on conflict (workflow_id) do update set ${DUE_AGAIN}
  )`

const INSERTS = {
  plain: INSERT + WRITTEN,
  started: INSERT + enqueuing(28) + WRITTEN,
  invoked: INSERT + INVOCATIONS + WRITTEN,
  invokedAndStarted: INSERT + INVOCATIONS + enqueuing(32) + WRITTEN,
} as const

/**
 * Inserts new tasks with their holds, events, counts and invocations in one statement, which is one transaction. Safe to repeat
 * after an unknown outcome, because rows that exist add no effects. Returns the number of rows inserted.
 */
export async function insertTasks(
  db: Executor,
  entries: readonly TaskEntry[],
  starts: readonly WorkflowStart[] = [],
): Promise<number> {
  const { list: templates, numbers } = distinct(entries.map(({ template }) => template))
  const invoked = entries.filter(({ invocation }) => invocation)
  const [template] = templates
  if (template && templates.length === 1 && starts.length === 0 && invoked.length === 0)
    return insertUniformBatch(db, template, entries)
  const ofTemplates = (name: TemplateColumn) => templates.map((template) => template[name])
  const parameters = [
    ...effectParameters(templates),
    ...freshParameters(entries),
    bareArray(numbers),
    ofTemplates('account_id'),
    ofTemplates('endpoint_id'),
    ofTemplates('status'),
    ofTemplates('surface'),
    ofTemplates('model_key'),
    ofTemplates('model_state'),
    ofTemplates('price_micro'),
    ofTemplates('node_id'),
    ofTemplates('gateway_id'),
    ofTemplates('key_id'),
  ]
  if (invoked.length > 0) parameters.push(...invocationParameters(invoked))
  if (starts.length === 0)
    return runWrite(db, invoked.length > 0 ? INSERTS.invoked : INSERTS.plain, parameters)
  const enqueued = [
    starts.map(({ workflowId }) => workflowId),
    starts.map(({ workflow }) => workflow),
    starts.map(({ taskQueue }) => taskQueue),
    starts.map(({ args }) => JSON.stringify(args)),
    starts.map(({ options = {} }) => JSON.stringify(options)),
  ]
  const statement = invoked.length > 0 ? INSERTS.invokedAndStarted : INSERTS.started
  return runWrite(db, statement, [...parameters, ...enqueued])
}

const invocationParameters = (entries: readonly TaskEntry[]): unknown[] => [
  bareArray(entries.map(({ invocation }) => invocation?.id ?? null)),
  bareArray(entries.map(({ id }) => id)),
  entries.map(({ invocation }) => invocation?.slug),
  entries.map(({ invocation }) => invocation?.kind),
]

const SETTLE = `with given as (
    select * from unnest($8::uuid[], $9::int[], $10::text[], $11::bool[], $12::text[], $13::uuid[], $14::float8[], $15::float8[],
      $16::bigint[], $17::bigint[], $18::bytea[], $19::text[])
      as t(id, effects, status, expired, model_state, node_id, inference_time_ms, completed_ms, tokens_in, tokens_out, result, error)
  ), written as (
    update task set status = given.status, input = null, result = given.result, error = given.error, expired = given.expired,
      model_state = coalesce(given.model_state, task.model_state), node_id = coalesce(given.node_id, task.node_id),
      inference_time_ms = given.inference_time_ms, completed_at = to_timestamp(given.completed_ms / 1000),
      tokens_in = ${countedOf('given', 'tokens_in')}, tokens_out = ${countedOf('given', 'tokens_out')}
    from given
    where task.id = given.id and task.status not in ('succeeded', 'failed')
    returning task.id, task.account_id, task.endpoint_id, task.status, task.surface, task.expired, task.completed_at as at,
      given.effects, given.tokens_in + given.tokens_out as tokens, given.inference_time_ms, task.key_id, task.price_micro
  ), ${WRITE_EFFECTS}, counted as (
    insert into usage_delta (account_id, endpoint_id, succeeded, failed, expired, tokens, inference_ms, key_id, cost_micro)
    select account_id, endpoint_id, count(*) filter (where status = 'succeeded'),
      count(*) filter (where status = 'failed'), count(*) filter (where expired), sum(tokens), ${SETTLED_MS},
      key_id, coalesce(-sum(price_micro) filter (where status = 'failed'), 0)
    from written group by account_id, endpoint_id, key_id
  ), ended_invocations as (
    update invocation set ended = true
    from written
    where written.surface in ('action', 'mcp') and invocation.task_id = written.id and not invocation.ended
    returning invocation.id, invocation.account_id, written.at, written.status
  ), invocation_events as (${insertInvocationEvents('ended_invocations')})
  select count(pg_notify('${TASK_CHANNEL}', id::text)) as written from written`

/**
 * In one statement, ends tasks that are still open, and notifies their waiters. Clears their inputs: only unfinished
 * work reads them, and they would fill the database's disk, which no quota counts. Repeating it, or ending a task that
 * another writer has ended, changes nothing. Returns the number of tasks ended.
 */
export async function settleTasks(db: Executor, settlements: readonly Settlement[]): Promise<number> {
  const { list, numbers } = distinct(settlements.map(({ effects }) => effects))
  return runWrite(db, SETTLE, [
    ...effectParameters(list),
    bareArray(settlements.map(({ taskId }) => taskId)),
    bareArray(numbers),
    bareArray(settlements.map(({ status }) => status)),
    bareArray(settlements.map(({ expired }) => expired)),
    bareArray(settlements.map(({ modelState }) => modelState)),
    bareArray(settlements.map(({ nodeId }) => nodeId)),
    bareArray(settlements.map(({ inferenceTimeMs }) => inferenceTimeMs)),
    bareArray(settlements.map(({ completedAt }) => completedAt.getTime())),
    bareArray(settlements.map(({ tokens }) => tokens.in)),
    bareArray(settlements.map(({ tokens }) => tokens.out)),
    bytesOrNull(settlements.map(({ result }) => result)),
    textsOrNull(settlements.map(({ error }) => error && storable(error))),
  ])
}

/** Returns the distinct values, and each value's 1-based index among them. */
function distinct<T>(values: readonly T[]): { list: T[]; numbers: number[] } {
  const known = new Map<T, number>()
  const numbers = values.map((value) => {
    let number = known.get(value)
    if (number === undefined) known.set(value, (number = known.size + 1))
    return number
  })
  return { list: [...known.keys()], numbers }
}

/** The parameters for the effects, which come first in both the insert and the settle statement. */
function effectParameters(list: readonly TaskEffects[]): unknown[] {
  const lines = list.flatMap(({ transfers }, i) => transfers.map((line) => ({ ...line, number: i + 1 })))
  return [
    bareArray(lines.map(({ number }) => number)),
    bareArray(lines.map(({ kind }) => kind)),
    lines.map(({ from }) => from),
    lines.map(({ to }) => to),
    bareArray(lines.map(({ amount_micro }) => amount_micro)),
    list.map(({ event }) => event?.type),
    list.map(({ event }) => event?.payload),
  ]
}
