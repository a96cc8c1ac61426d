import { type Kysely, sql } from 'kysely'
import type { LedgerKind } from '../../../domain/ledger.ts'
import { firstIdAt } from '../../../domain/uuid.ts'
import type { Database } from '../../tables.ts'

/** A range of work creation times; a ledger entry counts at the time when its work was created. */
export interface Period {
  from: Date | undefined
  until: Date | undefined
}

const FIRST_ID = '00000000-0000-0000-0000-000000000000'
const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** The period that covers all work. */
export const ALWAYS: Period = { from: undefined, until: undefined }

/** The id bounds of a period: at or above `low`, below `high`. */
export const boundsOf = ({ from, until }: Period): { low: string; high: string } => ({
  low: from ? firstIdAt(from) : FIRST_ID,
  high: until ? firstIdAt(until) : LAST_ID,
})

/** The purse of an account, as `domain/ledger.ts` names it. */
const purseOf = (accountId: string): string => `account:${accountId}`

/** An account's entries for one task, one stage of a cohort, or credits from an operator. */
export interface BookedWork {
  id: string
  /** The task; for a stage, its cohort's task. */
  task_id: string | null
  endpoint_id: string | null
  cohort_id: string | null
  stage: string | null
  /** The operator's reason for the credits. */
  reason: string | null
  entries: { kind: LedgerKind; amount_micro: number; created_at: string }[]
}

/** Lists the paid work of an account, and the credits it was given, with their entries, newest first. */
export async function listBooked(
  db: Kysely<Database>,
  accountId: string,
  { before, limit, ...period }: Period & { before: string | undefined; limit: number },
): Promise<BookedWork[]> {
  const { low, high } = boundsOf(period)
  const below = before !== undefined && before < high ? before : high
  const { rows } = await sql<BookedWork>`
    with work as (
      (select id, id as task_id, endpoint_id, null::uuid as cohort_id, null as stage, null as reason from task
        where account_id = any(array[${accountId}]::uuid[]) and price_micro > 0 and id >= ${low} and id < ${below}
        order by account_id, id desc limit ${limit})
      union all
      (select s.id, c.task_id, s.endpoint_id, c.id, s.name, null from cohort_stage s join cohort c on c.id = s.cohort_id
        where s.account_id = any(array[${accountId}]::uuid[]) and s.id >= ${low} and s.id < ${below}
          and exists (select from ledger_transfer l where l.task_id = s.id and l.kind = 'hold')
        order by s.account_id, s.id desc limit ${limit})
      union all
      (select id, null, null, null, null, reason from account_credit
        where account_id = any(array[${accountId}]::uuid[]) and id >= ${low} and id < ${below}
        order by account_id, id desc limit ${limit})
    ), page as (select * from work order by id desc limit ${limit})
    select page.*, coalesce(booked.entries, '[]') as entries
    from page left join lateral (
      select jsonb_agg(jsonb_build_object('kind', kind, 'amount_micro', amount_micro, 'created_at', created_at)
        order by array_position(array['refund', 'hold'], kind), amount_micro) as entries
      from ledger_line where ledger_line.task_id = page.id and purse = ${purseOf(accountId)}
    ) booked on true
    order by page.id desc`.execute(db)
  return rows
}

/** Returns what an account has spent on work from a period, in micro-credits; holds count as spent. */
export async function spentBy(db: Kysely<Database>, accountId: string, period: Period): Promise<number> {
  const { low, high } = boundsOf(period)
  const purse = purseOf(accountId)
  const { rows } = await sql<{ spent: number }>`
    with work as (
      select id from task where account_id = any(array[${accountId}]::uuid[]) and price_micro > 0 and id >= ${low} and id < ${high}
      union all
      select id from cohort_stage where account_id = any(array[${accountId}]::uuid[]) and id >= ${low} and id < ${high}
    )
    select (coalesce(sum(amount), 0))::bigint as spent from (
      select case when from_purse = ${purse} then amount_micro else -amount_micro end as amount
      from work join ledger_transfer l on l.task_id = work.id
      where kind in ('hold', 'refund') and ${purse} in (from_purse, to_purse)
      union all
      select -amount_micro from work join ledger_entry e on e.task_id = work.id where purse = ${purse}
    ) as moves`.execute(db)
  return rows[0]?.spent ?? 0
}
