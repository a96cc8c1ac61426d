import { type Kysely, sql } from 'kysely'
import { at } from '../../../domain/at.ts'
import type { Database } from '../../tables.ts'

export interface BacklogTotals {
  events: number
  pending: number
  delivering: number
  retrying: number
  due: number
  oldest_due_s: number | null
}

export interface BacklogDestination {
  webhook_endpoint_id: string
  account_id: string
  origin: string
  open: number
  retrying: number
  due: number
  oldest_at: Date
  next_attempt_at: Date | null
}

const isDue = sql`(status = 'pending' or status = 'retrying' and next_attempt_at <= now())`

/** Counts the deliveries of all accounts that have not ended. Reads only the indexes of open rows. */
export async function countBacklog(db: Kysely<Database>): Promise<BacklogTotals> {
  const { rows } = await sql<BacklogTotals>`
    select (select count(*)::int from webhook_outbox) as events,
      (count(*) filter (where status = 'pending'))::int as pending,
      (count(*) filter (where status = 'delivering'))::int as delivering,
      (count(*) filter (where status = 'retrying'))::int as retrying,
      (count(*) filter (where ${isDue}))::int as due,
      greatest(0, extract(epoch from now() - min(case when status = 'pending' then created_at else next_attempt_at end)
        filter (where ${isDue})))::float8 as oldest_due_s
    from webhook_delivery where status in ('pending', 'delivering', 'retrying')`.execute(db)
  return at(rows, 0)
}

/** Lists the destinations with the most open deliveries. */
export async function listBacklogged(db: Kysely<Database>, limit: number): Promise<BacklogDestination[]> {
  const { rows } = await sql<BacklogDestination>`
    select d.*, e.url_origin as origin from (
      select endpoint_id as webhook_endpoint_id, account_id, count(*)::int as open,
        (count(*) filter (where status = 'retrying'))::int as retrying,
        (count(*) filter (where ${isDue}))::int as due,
        min(created_at) as oldest_at, min(next_attempt_at) as next_attempt_at
      from webhook_delivery where status in ('pending', 'delivering', 'retrying')
      group by 1, 2 order by open desc, endpoint_id limit ${limit}
    ) d join webhook_endpoint e on e.id = d.webhook_endpoint_id
    order by open desc, webhook_endpoint_id`.execute(db)
  return rows
}
