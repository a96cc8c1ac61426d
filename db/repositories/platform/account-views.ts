import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'
import type { AccountRow } from '../../tables/accounts.ts'

/** An account's items and activity. */
export interface AccountActivity {
  keys: number
  nodes: number
  open_runs: number
  open_tasks: number
  requests: number
  failed: number
  last_used_at: Date | null
}
export type ViewedAccount = AccountRow & AccountActivity

/** Open tasks are counted up to this number. */
const MAX_COUNTED = 10_000

/** Lists accounts with their activity, newest first; `name` matches any part of the account name, ignoring case. */
export async function listAccountViews(
  db: Kysely<Database>,
  { name, before, limit }: { name: string | undefined; before: string | undefined; limit: number },
): Promise<ViewedAccount[]> {
  const { rows } = await sql<ViewedAccount>`
    with page as materialized (
      select * from account
      where (${before ?? null}::uuid is null or id < ${before ?? null}::uuid)
        and (${name ?? null}::text is null or position(lower(${name ?? null}) in lower(name)) > 0)
      order by id desc limit ${limit}
    ) ${activityOfPage}`.execute(db)
  return rows
}

/** Finds an account with its activity. */
export async function findAccountView(db: Kysely<Database>, id: string): Promise<ViewedAccount | undefined> {
  const { rows } = await sql<ViewedAccount>`
    with page as materialized (select * from account where id = ${id}) ${activityOfPage}`.execute(db)
  return rows[0]
}

const activityOfPage = sql`
  , owned as (
    select account_id, count(*)::int as nodes from node
    where status <> 'removed' and account_id in (select id from page) group by account_id
  )
  select page.*, key.*, usage.*, coalesce(owned.nodes, 0) as nodes,
    (select count(*)::int from training_run r where r.account_id = page.id
      and r.status in ('pending', 'running') and r.deleted_at is null) as open_runs,
    -- The ordering makes the planner use the index of open tasks by account, even if one account owns nearly all.
    (select count(*)::int from (select from task t where t.account_id = page.id
      and t.status not in ('succeeded', 'failed') order by t.account_id, t.id desc limit ${MAX_COUNTED}) open) as open_tasks
  from page
  left join owned on owned.account_id = page.id,
  lateral (
    select (count(*) filter (where revoked_at is null and (expires_at is null or expires_at > now())))::int as keys,
      max(last_used_at) as last_used_at
    from api_key where account_id = page.id
  ) key,
  lateral (
    select coalesce(sum(succeeded + failed), 0)::bigint as requests, coalesce(sum(failed), 0)::bigint as failed
    from (
      select succeeded, failed from usage_total where account_id = page.id
      union all
      select succeeded, failed from usage_delta where account_id = page.id
    ) counts
  ) usage
  order by page.id desc`
