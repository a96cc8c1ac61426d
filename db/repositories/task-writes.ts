import { type Kysely, type RawBuilder, sql } from 'kysely'
import { newId } from '../../domain/ids.ts'
import type { Posting } from '../../domain/ledger.ts'
import type { Database } from '../tables.ts'
import type { TaskRow } from '../tables/inference.ts'
import type { EventRow } from './events.ts'
import type { WorkflowStart } from './workflow-starts.ts'

/** The channel on which ended tasks are announced; the payload is the task's id. */
export const TASK_CHANNEL = 'hearth_task'

/** A task's row as it is first written, and what is booked and told with it. */
export interface TaskEntry {
  task: Omit<TaskRow, 'status_detail' | 'expired' | 'attempt'>
  postings: readonly Posting[]
  event: EventRow | undefined
  /** What a language model counted, of a task that has ended. */
  tokens?: number
}

/** How a task ends. */
export interface Settlement {
  taskId: string
  status: 'succeeded' | 'failed'
  result: Buffer | null
  error: string | null
  expired: boolean
  /** Null keeps what the row says. */
  modelState: TaskRow['model_state']
  nodeId: string | null
  inferenceTimeMs: number | null
  completedAt: Date
  postings: readonly Posting[]
  event: EventRow
  /** What a language model counted. */
  tokens: number
}

type Column = readonly unknown[]
const array = (values: Column, type: string): RawBuilder<unknown> => sql`${values}::${sql.raw(type)}[]`

/** Text that Postgres can hold: no NUL, no half surrogate pair. */
const plain = (text: string | null) => text?.toWellFormed().replaceAll('\0', '\uFFFD') ?? null

/**
 * Writes new tasks with their holds, events and counts in one statement, which is one transaction. Safe to repeat after an
 * unknown outcome: rows that are there already bring nothing with them. Gives the ids it wrote.
 */
export async function insertTasks(
  db: Kysely<Database>,
  entries: readonly TaskEntry[],
  start?: WorkflowStart,
): Promise<string[]> {
  const tasks = entries.map(({ task }) => task)
  const of = <K extends keyof TaskEntry['task']>(name: K, type: string) =>
    array(
      tasks.map((task) => task[name]),
      type,
    )
  const { rows } = await sql<{ id: string }>`
    with placed as (
      insert into task (id, account_id, endpoint_id, status, surface, model_key, model_state, input, result, error,
        price_micro, node_id, gateway_id, inference_time_ms, created_at, started_at, completed_at)
      select * from unnest(${of('id', 'uuid')}, ${of('account_id', 'uuid')}, ${of('endpoint_id', 'uuid')},
        ${of('status', 'text')}, ${of('surface', 'text')}, ${of('model_key', 'text')}, ${of('model_state', 'text')},
        ${of('input', 'bytea')}, ${of('result', 'bytea')}, ${array(
          tasks.map(({ error }) => plain(error)),
          'text',
        )}, ${of('price_micro', 'bigint')}, ${of('node_id', 'uuid')}, ${of('gateway_id', 'uuid')},
        ${of('inference_time_ms', 'float8')}, ${of('created_at', 'timestamptz')}, ${of('started_at', 'timestamptz')},
        ${of('completed_at', 'timestamptz')})
      on conflict (id) do nothing
      returning id, account_id, endpoint_id, status
    ), ${bookAndTell(entries, 'placed')}, counted as (
      insert into usage_delta (account_id, endpoint_id, enqueued, succeeded, failed, tokens)
      select account_id, endpoint_id, count(*), count(*) filter (where status = 'succeeded'),
        count(*) filter (where status = 'failed'), sum(t.tokens)
      from placed join unnest(${of('id', 'uuid')}, ${array(
        entries.map(({ tokens = 0 }) => tokens),
        'bigint',
      )}) as t(id, tokens) using (id) group by 1, 2
    )${start ? promise(start) : sql``}
    select id from placed`.execute(db)
  return rows.map(({ id }) => id)
}

/**
 * Ends tasks that are still open, in one statement, and wakes who waits for them. Repeating it, or ending a task that
 * another writer has ended, changes nothing. Gives the ids it ended.
 */
export async function settleTasks(
  db: Kysely<Database>,
  settlements: readonly Settlement[],
): Promise<string[]> {
  const of = <K extends keyof Settlement>(name: K, type: string) =>
    array(
      settlements.map((settlement) => settlement[name]),
      type,
    )
  const { rows } = await sql<{ id: string }>`
    with settled as (
      update task set status = g.status, result = g.result, error = g.error, expired = g.expired,
        model_state = coalesce(g.model_state, task.model_state), node_id = coalesce(g.node_id, task.node_id),
        inference_time_ms = g.inference_time_ms, completed_at = g.completed_at
      from unnest(${of('taskId', 'uuid')}, ${of('status', 'text')}, ${of('result', 'bytea')}, ${array(
        settlements.map(({ error }) => plain(error)),
        'text',
      )}, ${of('expired', 'bool')}, ${of('modelState', 'text')}, ${of('nodeId', 'uuid')},
        ${of('inferenceTimeMs', 'float8')}, ${of('completedAt', 'timestamptz')}, ${of('tokens', 'bigint')})
        as g(id, status, result, error, expired, model_state, node_id, inference_time_ms, completed_at, tokens)
      where task.id = g.id and task.status not in ('succeeded', 'failed')
      returning task.id, task.account_id, task.endpoint_id, task.status, task.expired, g.tokens
    ), ${bookAndTell(settlements, 'settled')}, counted as (
      insert into usage_delta (account_id, endpoint_id, succeeded, failed, expired, tokens)
      select account_id, endpoint_id, count(*) filter (where status = 'succeeded'),
        count(*) filter (where status = 'failed'), count(*) filter (where expired), sum(tokens)
      from settled group by 1, 2
    )
    select id, pg_notify(${TASK_CHANNEL}, id::text) from settled`.execute(db)
  return rows.map(({ id }) => id)
}

/** Ledger lines and events of those tasks that the statement really wrote. */
function bookAndTell(
  entries: readonly { postings: readonly Posting[]; event: EventRow | undefined }[],
  written: 'placed' | 'settled',
): RawBuilder<unknown> {
  const postings = entries.flatMap((entry) => entry.postings)
  const events = entries.flatMap(({ event }) => event ?? [])
  const posting = (name: keyof Posting, type: string) =>
    array(
      postings.map((line) => line[name]),
      type,
    )
  const event = (name: keyof EventRow, type: string) =>
    array(
      events.map((row) => row[name]),
      type,
    )
  const ids = array(
    postings.map(() => newId()),
    'uuid',
  )
  return sql`booked as (
      insert into ledger_entry (id, task_id, kind, purse, amount_micro)
      select * from unnest(${ids}, ${posting('task_id', 'uuid')}, ${posting('kind', 'text')},
        ${posting('purse', 'text')}, ${posting('amount_micro', 'bigint')}) as b(id, task_id, kind, purse, amount_micro)
      where b.task_id in (select id from ${sql.table(written)})
      on conflict (task_id, kind, purse) do nothing
    ), told as (
      insert into event (id, account_id, type, resource_id, payload, created_at)
      select * from unnest(${event('id', 'uuid')}, ${event('account_id', 'uuid')}, ${event('type', 'text')},
        ${event('resource_id', 'uuid')}, ${event('payload', 'bytea')}, ${event('created_at', 'timestamptz')})
        as t(id, account_id, type, resource_id, payload, created_at)
      where t.resource_id in (select id from ${sql.table(written)})
      on conflict (resource_id, type) do nothing
    )`
}

const promise = ({ workflowId, workflow, taskQueue, args, options }: WorkflowStart): RawBuilder<unknown> =>
  sql`, promised as (
      insert into workflow_start (workflow_id, workflow, task_queue, args, options)
      values (${workflowId}, ${workflow}, ${taskQueue}, ${JSON.stringify(args)}::jsonb,
        ${JSON.stringify(options ?? {})}::jsonb)
      on conflict (workflow_id) do nothing
    )`
