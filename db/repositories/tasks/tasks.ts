import { type Kysely, sql, type Transaction } from 'kysely'
import { LRUCache } from 'lru-cache'
import { NO_TOKENS, type TokenCounts } from '../../../domain/chat/chat.ts'
import {
  canMoveTask,
  isTerminalTask,
  taskStatusesBefore,
  taskStatusOf,
  TERMINAL_TASK_STATUSES,
} from '../../../domain/inference-task.ts'
import { capture, type PricedTask, refund } from '../../../domain/ledger.ts'
import { storable } from '../../../domain/storable-text.ts'
import type { ModelState, StatusDetail } from '../../../schemas/inference-task.ts'
import { lockAccount } from '../../account-lock.ts'
import type { Database } from '../../tables.ts'
import type { TaskOutputFile, TaskRow } from '../../tables/inference.ts'
import type { EndpointRow } from '../../tables/models.ts'
import { takeLease } from '../nodes/leases.ts'
import { enqueueWorkflow, type WorkflowStart } from '../platform/workflow-starts.ts'
import { type EventForm, eventForm } from '../webhooks/events.ts'
import type { TaskEffects, Settlement } from './entry.ts'
import { settleTasks } from './writes.ts'

/** Excludes `input` and `result`: either may be up to 64 MB, and most statements need only a task's state. */
const FACTS = [
  'id',
  'account_id',
  'endpoint_id',
  'surface',
  'status',
  'model_key',
  'price_micro',
  'node_id',
  'gateway_id',
  'key_id',
  'attempt',
  'error',
  'started_at',
  'waiting_since',
] as const satisfies (keyof TaskRow)[]

/** A task without its input and result. */
export type TaskFacts = Pick<TaskRow, (typeof FACTS)[number]>

/** Finds a task of an account. */
export function findTask(
  db: Kysely<Database>,
  { id, accountId }: { id: string; accountId: string },
): Promise<TaskFacts | undefined> {
  return db
    .selectFrom('task')
    .select(FACTS)
    .where('id', '=', id)
    .where('account_id', '=', accountId)
    .executeTakeFirst()
}

/** Finds a task of any account, for operators. */
export function findAnyTask(
  db: Kysely<Database>,
  id: string,
): Promise<Pick<TaskRow, 'account_id' | 'status' | 'surface'> | undefined> {
  return db
    .selectFrom('task')
    .select(['account_id', 'status', 'surface'])
    .where('id', '=', id)
    .executeTakeFirst()
}

/** Locks a task, so that changes to its status and leases are serialized. */
export function lockTask(trx: Transaction<Database>, id: string): Promise<TaskFacts | undefined> {
  return trx.selectFrom('task').select(FACTS).where('id', '=', id).forNoKeyUpdate().executeTakeFirst()
}

/** Returns the input of a task for the holder of the lease with this token. */
export async function findLeasedInput(
  db: Kysely<Database>,
  taskId: string,
  leaseToken: string,
): Promise<Buffer | undefined> {
  const row = await db
    .selectFrom('task')
    .innerJoin('lease', (join) =>
      join.onRef('lease.subject_id', '=', 'task.id').on('lease.kind', '=', 'task'),
    )
    .select('task.input')
    .where('task.id', '=', taskId)
    .where('lease.token', '=', leaseToken)
    .where('lease.state', '=', 'active')
    .executeTakeFirst()
  return row?.input ?? undefined
}

/** Records that a node has claimed the task. */
export async function claimTask(
  trx: Transaction<Database>,
  task: Pick<TaskRow, 'id' | 'started_at'>,
  { nodeId, attempt, now }: { nodeId: string; attempt: number; now: Date },
): Promise<void> {
  await trx
    .updateTable('task')
    .set({
      status: 'claimed',
      status_detail: null,
      node_id: nodeId,
      attempt,
      started_at: task.started_at ?? now,
    })
    .where('id', '=', task.id)
    .where('status', 'in', taskStatusesBefore('claimed'))
    .execute()
}

/** Records a node's progress report. Steps only go forward; late and repeated reports are ignored. */
export async function recordProgress(
  db: Kysely<Database>,
  taskId: string,
  detail: StatusDetail,
): Promise<void> {
  const step = taskStatusOf(detail.status)
  await db
    .updateTable('task')
    .set((eb) => ({
      status_detail: JSON.stringify(detail),
      ...(step && {
        status: eb
          .case()
          .when(eb('status', 'in', taskStatusesBefore(step)))
          .then(step)
          .else(eb.ref('status'))
          .end(),
      }),
    }))
    .where('id', '=', taskId)
    .where('status', 'not in', TERMINAL_TASK_STATUSES)
    .execute()
}

/** Takes a task from its current owner, so that it can be placed again. */
export async function requeueTask(trx: Transaction<Database>, task: TaskFacts): Promise<TaskFacts> {
  await takeLease(trx, 'task', task.id, 'expired')
  if (task.status === 'queued' || !canMoveTask(task.status, 'queued')) return task
  await trx
    .updateTable('task')
    .set({ status: 'queued', status_detail: null })
    .where('id', '=', task.id)
    .where('status', 'in', taskStatusesBefore('queued'))
    .execute()
  return { ...task, status: 'queued' }
}

/** Hands a task from its gateway over to a workflow. */
export async function escalateTask(
  trx: Transaction<Database>,
  taskId: string,
  start: WorkflowStart,
): Promise<void> {
  const { numUpdatedRows } = await trx
    .updateTable('task')
    .set({ status: 'queued', gateway_id: null, model_state: null })
    .where('id', '=', taskId)
    .where('status', 'in', taskStatusesBefore('queued'))
    .executeTakeFirst()
  if (numUpdatedRows > 0n) await enqueueWorkflow(trx, start)
}

/**
 * Returns the number of an account's waiting tasks, counted up to the quota, and the quota. The lock lasts until the
 * transaction ends, so that concurrent transactions add their tasks one after another.
 */
export async function lockTaskQuota(
  trx: Transaction<Database>,
  accountId: string,
): Promise<{ quota: number; waiting: number }> {
  // Lock in a separate statement, so that the next one sees the rows written by the lock's previous holder.
  await lockAccount(trx, 'task-quota', accountId)
  const { rows } = await sql<{ quota: number; waiting: number }>`
    select task_quota as quota, (select count(*)::int from (
      select from task where account_id = account.id and status in ('queued', 'assigned')
      limit account.task_quota) as counted) as waiting
    from account where id = ${accountId}`.execute(trx)
  return rows[0] ?? { quota: 0, waiting: 0 }
}

/** Returns which of these tasks exist. */
export async function findExisting(db: Kysely<Database>, ids: readonly string[]): Promise<Set<string>> {
  const rows = await db
    .selectFrom('task')
    .select('id')
    .where('id', '=', sql<string>`any(${ids}::uuid[])`)
    .execute()
  return new Set(rows.map(({ id }) => id))
}

/** Records the node that a task was sent to. */
export async function assignTask(db: Kysely<Database>, taskId: string, nodeId: string): Promise<void> {
  await db
    .updateTable('task')
    .set({ status: 'assigned', node_id: nodeId })
    .where('id', '=', taskId)
    .where('status', '=', 'queued')
    .execute()
}

/** Stores the result files of a task whose row was written only after it ended. */
export async function addOutputs(
  db: Kysely<Database>,
  taskId: string,
  outputs: readonly TaskOutputFile[],
): Promise<void> {
  await db
    .updateTable('task')
    .set({ outputs: JSON.stringify(outputs) })
    .where('id', '=', taskId)
    .where('status', '=', 'succeeded')
    .where('outputs', 'is', null)
    .execute()
}

/** Stores the files of a task's result, in the transaction that ends the task. */
export async function recordOutputs(
  trx: Transaction<Database>,
  taskId: string,
  outputs: readonly TaskOutputFile[],
): Promise<void> {
  await trx
    .updateTable('task')
    .set({ outputs: JSON.stringify(outputs) })
    .where('id', '=', taskId)
    .where('status', 'not in', TERMINAL_TASK_STATUSES)
    .execute()
}

export type Outcome =
  | {
      status: 'succeeded'
      /** Null for a result that is not stored, such as that of a stream. */
      result: Buffer | null
      inferenceTimeMs: number
      modelState: ModelState
      tokens?: TokenCounts
    }
  | { status: 'failed'; error: string; expired?: boolean }

/** The columns that the settlement of a task needs. */
type SettledTask = Pick<TaskRow, 'id' | 'account_id' | 'price_micro'>

/**
 * Builds the settlement of a task from its row and its outcome; `ownerAccountId` is the owner of
 * the node that did the work.
 */
export function settlementOf(
  task: SettledTask,
  outcome: Outcome,
  { now, nodeId, ownerAccountId }: { now: Date; nodeId?: string; ownerAccountId?: string | undefined },
): Settlement {
  const priced = { accountId: task.account_id, priceMicro: task.price_micro }
  const succeeded = outcome.status === 'succeeded'
  return {
    taskId: task.id,
    status: outcome.status,
    result: succeeded ? outcome.result : null,
    error: succeeded ? null : outcome.error,
    expired: !succeeded && outcome.expired === true,
    modelState: succeeded ? outcome.modelState : null,
    nodeId: nodeId ?? null,
    inferenceTimeMs: succeeded ? outcome.inferenceTimeMs : null,
    completedAt: now,
    effects: endOf(priced, outcome.status, ownerAccountId),
    tokens: succeeded ? (outcome.tokens ?? NO_TOKENS) : NO_TOKENS,
  }
}

const ends = new LRUCache<string, TaskEffects>({ max: 10_000 })

/**
 * Returns the effects of a task's end: the transfers of its price, and the event. Cached, so
 * equal arguments share one object.
 */
export function endOf(
  task: PricedTask,
  status: 'succeeded' | 'failed',
  owner: string | undefined,
): TaskEffects {
  const key = `${task.accountId} ${task.priceMicro} ${status} ${owner}`
  let end = ends.get(key)
  if (!end) {
    const transfers = status === 'succeeded' ? capture(task, owner) : refund(task)
    ends.set(key, (end = { transfers, event: taskEvent(task.accountId, status) }))
  }
  return end
}

/** The terminal event of a task. */
const taskEvent = (accountId: string, status: 'succeeded' | 'failed'): EventForm =>
  eventForm({
    accountId,
    type: `inference.task.${status}`,
    resource: { object: 'inference.task', status },
    resourceUrl: (id) => `/api/builder/v1/tasks/${id}`,
  })

/**
 * Ends a task regardless of its owner and revokes its lease, so that a later result is rejected. Safe to repeat; returns
 * the previous row, or undefined if the task does not exist.
 */
export async function endTask(
  trx: Transaction<Database>,
  taskId: string,
  outcome: Extract<Outcome, { status: 'failed' }>,
  now: Date,
): Promise<TaskFacts | undefined> {
  const task = await lockTask(trx, taskId)
  if (!task || isTerminalTask(task.status)) return task
  await takeLease(trx, 'task', taskId, 'revoked')
  await settleTasks(trx, [settlementOf(task, outcome, { now })])
  return task
}

/** Returns the owner of the lease's node, and the node's hardware. */
export function findNodeOwner(
  db: Kysely<Database>,
  nodeId: string,
): Promise<{ account_id: string; hardware: string } | undefined> {
  return db.selectFrom('node').select(['account_id', 'hardware']).where('id', '=', nodeId).executeTakeFirst()
}

/** Stores the error that a node reported for its lease, in case no other node completes the task. */
export async function noteFailure(db: Kysely<Database>, taskId: string, message: string): Promise<void> {
  await db
    .updateTable('task')
    .set({ error: storable(message) })
    .where('id', '=', taskId)
    .where('status', 'not in', TERMINAL_TASK_STATUSES)
    .execute()
}

/** Returns what a node needs to know about a task's endpoint. */
export function findEndpointFacts(
  db: Kysely<Database>,
  endpointId: string,
): Promise<Pick<EndpointRow, 'name' | 'task_type'>> {
  return db
    .selectFrom('endpoint')
    .select(['name', 'task_type'])
    .where('id', '=', endpointId)
    .executeTakeFirstOrThrow()
}

/** Returns which of these tasks have ended. */
export async function findEnded(db: Kysely<Database>, ids: readonly string[]): Promise<string[]> {
  const rows = await db
    .selectFrom('task')
    .select('id')
    .where('id', '=', sql<string>`any(${ids}::uuid[])`)
    .where('status', 'in', TERMINAL_TASK_STATUSES)
    .execute()
  return rows.map(({ id }) => id)
}

/**
 * How long gateways have to renew their leases after a database restart; every live gateway renews within that time.
 */
const LEASE_RENEWAL_TIMEOUT_S = 10

/**
 * Locks open tasks of gateways whose lease has expired; tasks that another reaper has locked are skipped. A lease that
 * expired while the database was down does not count, because no gateway could renew it. The reaper's own gateway
 * (`own`) is never treated as lost.
 */
export function lockOrphans(
  trx: Transaction<Database>,
  { own, limit }: { own: string | undefined; limit: number },
): Promise<SettledTask[]> {
  const ranOut = sql<boolean>`gateway.lease_expires_at < now() and (
    gateway.lease_expires_at >= pg_postmaster_start_time()
    or pg_postmaster_start_time() < now() - make_interval(secs => ${LEASE_RENEWAL_TIMEOUT_S}))`
  return trx
    .selectFrom('task')
    .leftJoin('gateway', 'gateway.id', 'task.gateway_id')
    .select(['task.id', 'task.account_id', 'task.price_micro'])
    .where('task.gateway_id', 'is not', null)
    .$call((qb) => (own === undefined ? qb : qb.where('task.gateway_id', '<>', own)))
    .where('task.status', 'not in', TERMINAL_TASK_STATUSES)
    .where((eb) => eb.or([eb('gateway.id', 'is', null), ranOut]))
    .limit(limit)
    .forNoKeyUpdate('task')
    .skipLocked()
    .execute()
}
