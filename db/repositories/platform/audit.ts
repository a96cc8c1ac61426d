import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'
import type { LedgerLineRow, TaskRow } from '../../tables/inference.ts'
import type { TaskMemoryRow } from '../../tables/memory.ts'

type AuditedTask = Pick<
  TaskRow,
  'account_id' | 'endpoint_id' | 'status' | 'price_micro' | 'created_at' | 'completed_at'
>

/** A ledger entry of a task, with the stage's name if it belongs to a cohort stage. */
export type AuditedLine = LedgerLineRow & { stage: string | null }

/** Returns a task without its contents, with its memory and all its ledger entries in order. */
export async function findTaskAudit(
  db: Kysely<Database>,
  taskId: string,
): Promise<{ task: AuditedTask; entries: AuditedLine[]; memory: TaskMemoryRow | undefined } | undefined> {
  const task = await db
    .selectFrom('task')
    .select(['account_id', 'endpoint_id', 'status', 'price_micro', 'created_at', 'completed_at'])
    .where('id', '=', taskId)
    .executeTakeFirst()
  if (!task) return undefined
  const stages = await db
    .selectFrom('cohort_stage')
    .innerJoin('cohort', 'cohort.id', 'cohort_stage.cohort_id')
    .select('cohort_stage.id')
    .where('cohort.task_id', '=', taskId)
    .execute()
  const entries = await db
    .selectFrom('ledger_line')
    .leftJoin('cohort_stage', 'cohort_stage.id', 'ledger_line.task_id')
    .selectAll('ledger_line')
    .select('cohort_stage.name as stage')
    // The stages of a cohort book under their own ids; each entry of theirs carries the name of its stage.
    .select(sql<string>`coalesce(cohort_stage.name || '.', '') || ledger_line.id`.as('id'))
    .where('ledger_line.task_id', 'in', [taskId, ...stages.map(({ id }) => id)])
    .orderBy('cohort_stage.position')
    .orderBy(sql`array_position(array['hold', 'capture', 'refund', 'payout'], kind)`)
    .orderBy('amount_micro')
    .execute()
  const memory = await db
    .selectFrom('task_memory')
    .selectAll()
    .where('task_id', '=', taskId)
    .where('account_id', '=', task.account_id)
    .executeTakeFirst()
  return { task, entries, memory }
}
