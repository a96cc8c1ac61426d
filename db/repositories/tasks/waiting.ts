import { type Kysely, sql, type Transaction } from 'kysely'
import type { DispatchedModel, WaitingModel } from '../../../domain/placement/wake-ups.ts'
import type { Database } from '../../tables.ts'
import { BASE_KEY } from '../endpoints/adapters.ts'
import { ENGINE } from '../endpoints/serving.ts'

/** A woken task that is still waiting after this long is woken again, because the signal may have been lost. */
const WAKE_RETRY_DELAY_S = 10
/** Counting stops at this number, beyond which the longest pause no longer grows. */
const MAX_COUNTED = 10_000

/** A task that a workflow has sent to a node and that has not ended. */
export const isHeld = sql<boolean>`status not in ('succeeded', 'failed') and status <> 'queued'
  and gateway_id is null and node_id is not null`

/** Records that no node can run a task. A task that is already waiting keeps its place in the order. */
export async function noteUnplaced(db: Kysely<Database>, taskId: string): Promise<void> {
  await db
    .updateTable('task')
    .set({ waiting_since: sql<Date>`now()` })
    .where('id', '=', taskId)
    .where('status', '=', 'queued')
    .where('waiting_since', 'is', null)
    .execute()
}

/** Counts an account's tasks that are waiting because no node can run them. */
export async function countUnplaced(db: Kysely<Database>, accountId: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from (
      select from task where waiting_since is not null and status = 'queued' and account_id = ${accountId}
      limit ${MAX_COUNTED}
    ) as counted`.execute(db)
  return rows[0]?.count ?? 0
}

/** Returns whether any task is waiting because no node can run it. */
export async function hasUnplaced(db: Kysely<Database>): Promise<boolean> {
  const { rows } = await sql<{ has: boolean }>`
    select exists (select from task where waiting_since is not null and status = 'queued') as has`.execute(db)
  return rows[0]?.has ?? false
}

/** Locks the planning of wake-ups, so that one gateway plans at a time; false if another one holds the lock. */
export async function lockWaking(trx: Transaction<Database>): Promise<boolean> {
  const { rows } = await sql<{ got: boolean }>`
    select pg_try_advisory_xact_lock(hashtextextended('task-waking', 0)) as got`.execute(trx)
  return rows[0]?.got ?? false
}

/** Returns the waiting tasks by account and model, longest waiting first. */
export async function listWaitingModels(db: Kysely<Database>): Promise<WaitingModel[]> {
  const { rows } = await sql<WaitingModel>`
    with waiting as (
      select account_id, model_key, min(waiting_since) as since, count(*)::int as waiting,
        (count(*) filter (where woken_at > now() - make_interval(secs => ${WAKE_RETRY_DELAY_S})))::int as woken
      from task where waiting_since is not null and status = 'queued'
      group by account_id, model_key
    )
    select waiting.account_id, model_key, runtime_profile, memory_mb, tensor_parallel, ${BASE_KEY} as base_key,
      ${ENGINE} as engine, waiting, woken
    from waiting join model_version using (model_key)
    order by since, waiting.account_id, model_key`.execute(db)
  return rows
}

/** Returns the tasks that workflows have sent to nodes and that have not ended. */
export async function listHeldModels(db: Kysely<Database>): Promise<DispatchedModel[]> {
  const { rows } = await sql<DispatchedModel>`
    with held as (
      select node_id, account_id, model_key, count(*)::int as tasks from task
      where ${isHeld}
      group by node_id, account_id, model_key
    )
    select node_id, held.account_id, model_key, runtime_profile, memory_mb, tensor_parallel, ${BASE_KEY} as base_key,
      ${ENGINE} as engine, tasks
    from held join model_version using (model_key)`.execute(db)
  return rows
}

/** Marks the longest waiting tasks of an account for a model as woken, and returns them in that order. */
export async function takeWaking(
  trx: Transaction<Database>,
  { account_id, model_key, count }: { account_id: string; model_key: string; count: number },
): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    with chosen as (
      select id from task
      where waiting_since is not null and status = 'queued'
        and account_id = ${account_id} and model_key = ${model_key}
        and (woken_at is null or woken_at <= now() - make_interval(secs => ${WAKE_RETRY_DELAY_S}))
      order by waiting_since, id limit ${count}
      for update skip locked
    ), woken as (
      update task set woken_at = now() from chosen where task.id = chosen.id
      returning task.id, task.waiting_since
    )
    select id from woken order by waiting_since, id`.execute(trx)
  return rows.map(({ id }) => id)
}
