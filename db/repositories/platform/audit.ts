import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'
import type { LedgerLineRow, TaskRow } from '../../tables/inference.ts'

type Audited = Pick<
  TaskRow,
  'account_id' | 'endpoint_id' | 'status' | 'price_micro' | 'created_at' | 'completed_at'
>

/** Returns a task without its contents, with all its ledger entries in order. */
export async function findTaskAudit(
  db: Kysely<Database>,
  taskId: string,
): Promise<{ task: Audited; entries: LedgerLineRow[] } | undefined> {
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
  return { task, entries }
}
