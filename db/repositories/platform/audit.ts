import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'
import type { LedgerLineRow, TaskRow } from '../../tables/inference.ts'
import type { TaskMemoryRow } from '../../tables/memory.ts'

type Audited = Pick<
  TaskRow,
  'account_id' | 'endpoint_id' | 'status' | 'price_micro' | 'created_at' | 'completed_at'
>

/** Returns a task without its contents, with its memory and all its ledger entries in order. */
export async function findTaskAudit(
  db: Kysely<Database>,
  taskId: string,
): Promise<{ task: Audited; entries: LedgerLineRow[]; memory: TaskMemoryRow | undefined } | undefined> {
  const task = await db
    .selectFrom('task')
    .select(['account_id', 'endpoint_id', 'status', 'price_micro', 'created_at', 'completed_at'])
    .where('id', '=', taskId)
    .executeTakeFirst()
  if (!task) return undefined
  const entries = await db
    .selectFrom('ledger_line')
    .selectAll()
    .where('task_id', '=', taskId)
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
