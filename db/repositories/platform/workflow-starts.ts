import { type Kysely, sql, type Transaction } from 'kysely'
import type { Database } from '../../tables.ts'
import type { StartOptions, WorkflowStartRow } from '../../tables/accounts.ts'

/** A workflow to start once, with the details that operators see. */
export interface WorkflowStart {
  workflowId: string
  workflow: string
  taskQueue: string
  args: unknown[]
  options?: StartOptions
}

/**
 * Makes an already enqueued start due again. It also increments the attempts, so that the gateway that has just
 * performed the earlier start does not remove this one with it (`removeStarts`).
 */
export const DUE_AGAIN = 'attempts = workflow_start.attempts + 1, next_attempt_at = now()'

/** Enqueues a workflow in the transaction that creates the row it works on, so that neither exists without the other. */
export async function enqueueWorkflow(trx: Transaction<Database>, start: WorkflowStart): Promise<void> {
  await trx
    .insertInto('workflow_start')
    .values({
      workflow_id: start.workflowId,
      workflow: start.workflow,
      task_queue: start.taskQueue,
      args: JSON.stringify(start.args),
      options: JSON.stringify(start.options ?? {}),
    })
    .modifyEnd(sql`on conflict (workflow_id) do update set options = excluded.options, ${sql.raw(DUE_AGAIN)}`)
    .execute()
}

/** How long a claimed start belongs to its gateway; longer than one try can take. */
const CLAIM_TTL_S = 10
const MAX_WAIT_S = 4

/** Claims due starts; other gateways do not see them until the claim expires. */
export async function claimDueStarts(db: Kysely<Database>, limit: number): Promise<WorkflowStartRow[]> {
  const due = db
    .selectFrom('workflow_start')
    .select('workflow_id')
    .where('next_attempt_at', '<=', sql<Date>`now()`)
    .orderBy('next_attempt_at')
    .limit(limit)
    .forUpdate()
    .skipLocked()
  return db
    .updateTable('workflow_start')
    .set({
      next_attempt_at: sql<Date>`now() + make_interval(secs => ${CLAIM_TTL_S})`,
      attempts: sql<number>`attempts + 1`,
    })
    .where('workflow_id', 'in', due)
    .returningAll()
    .execute()
}

/** Postpones a failed start with exponential back-off. */
export async function deferStart(db: Kysely<Database>, start: WorkflowStartRow): Promise<void> {
  const wait = Math.min(MAX_WAIT_S, 0.25 * 2 ** Math.min(start.attempts, 10))
  await db
    .updateTable('workflow_start')
    .set({ next_attempt_at: sql<Date>`now() + make_interval(secs => ${wait})` })
    .where('workflow_id', '=', start.workflow_id)
    .execute()
}

/** Deletes starts that Temporal has accepted, unless they were enqueued again since they were claimed. */
export async function removeStarts(
  db: Kysely<Database>,
  starts: readonly Pick<WorkflowStartRow, 'workflow_id' | 'attempts'>[],
): Promise<void> {
  if (starts.length === 0) return
  const ids = starts.map(({ workflow_id }) => workflow_id)
  const attempts = starts.map((start) => start.attempts)
  await sql`
    delete from workflow_start using unnest(${ids}::text[], ${attempts}::int[]) as done (id, attempts)
    where workflow_start.workflow_id = done.id and workflow_start.attempts = done.attempts`.execute(db)
}

/** Returns whether a workflow is enqueued and has not been started yet. */
export async function isEnqueued(db: Kysely<Database>, workflowId: string): Promise<boolean> {
  const row = await db
    .selectFrom('workflow_start')
    .select('workflow_id')
    .where('workflow_id', '=', workflowId)
    .executeTakeFirst()
  return row !== undefined
}
