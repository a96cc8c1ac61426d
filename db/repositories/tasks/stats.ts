import { type Kysely, sql } from 'kysely'
import { at } from '../../../domain/at.ts'
import { TERMINAL_TASK_STATUSES } from '../../../domain/inference-task.ts'
import type { Database } from '../../tables.ts'

/** Counts the tasks of an account that are queued or running. */
export async function countOpenTasks(db: Kysely<Database>, accountId: string): Promise<number> {
  const { count } = await db
    .selectFrom('task')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('account_id', '=', accountId)
    .where('status', 'not in', TERMINAL_TASK_STATUSES)
    .executeTakeFirstOrThrow()
  return Number(count)
}

export interface Usage {
  enqueued: number
  succeeded: number
  failed: number
  expired: number
}

/** Reads an account's usage in one query: the totals, plus the deltas that are not folded into them yet. */
export async function readUsage(db: Kysely<Database>, accountId: string): Promise<Usage> {
  const { rows } = await sql<Usage>`
    select coalesce(sum(enqueued), 0)::bigint as enqueued, coalesce(sum(succeeded), 0)::bigint as succeeded,
      coalesce(sum(failed), 0)::bigint as failed, coalesce(sum(expired), 0)::bigint as expired
    from (
      select enqueued, succeeded, failed, expired from usage_total where account_id = ${accountId}
      union all
      select enqueued, succeeded, failed, expired from usage_delta where account_id = ${accountId}
    ) as counts`.execute(db)
  return at(rows, 0)
}
