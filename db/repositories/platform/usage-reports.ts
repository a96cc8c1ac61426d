import { type Kysely, sql } from 'kysely'
import type { PlatformUsageGroup } from '../../../schemas/platform-views.ts'
import type { Database } from '../../tables.ts'
import { boundsOf, type Period } from './ledger-reports.ts'

export type UsageGroup = 'day' | 'endpoint' | 'key' | 'model'

/** The usage of one day, endpoint, key or model. */
export interface UsageRow {
  /** A UTC day, an id or a model's key; null for work whose key was not recorded. */
  group: string | null
  /** The name of the endpoint or the key; null for days and models. */
  name: string | null
  requests: number
  failed: number
  tokens_in: number
  tokens_out: number
  cost_micro: number
}

/** How work is grouped, and the name of a group. */
const GROUPS: Record<UsageGroup, { key: string; name: string }> = {
  day: { key: "to_char(created_at at time zone 'UTC', 'YYYY-MM-DD')", name: 'null::text' },
  endpoint: {
    key: 'endpoint_id::text',
    name: '(select name from endpoint where endpoint.id::text = grouped.group)',
  },
  key: { key: 'key_id::text', name: '(select name from api_key where api_key.id::text = grouped.group)' },
  model: { key: 'model_key', name: 'null::text' },
}

/** Excludes groups without any usage, such as those of stages that never ran. */
const IS_USED = sql`sum(request) > 0 or sum(tokens_in) > 0 or sum(tokens_out) > 0 or coalesce(sum(micro), 0) <> 0`

/** Groupings that count each stage of a cohort by itself, and the cohort's task only through its stages. */
const OF_STAGES: ReadonlySet<UsageGroup | PlatformUsageGroup> = new Set(['endpoint', 'model', 'node'])

/** Counts the requests and failures of a row: a cohort is one request, or in `OF_STAGES` one per stage that ran. */
function counted(group: UsageGroup | PlatformUsageGroup) {
  const isOfStages = OF_STAGES.has(group)
  const [task, stage] = isOfStages
    ? [sql`surface <> 'cohort'`, sql`s.attempt > 0 and s.status in ('succeeded', 'failed')`]
    : [sql`true`, sql`false`]
  return {
    task: sql`(${task})::int as request, (status = 'failed' and ${task})::int as failure`,
    stage: sql`(${stage})::int, (s.status = 'failed' and ${stage})::int`,
  }
}

/**
 * Returns the usage of an account in a period, by the time of its tasks. The costs and tokens of a cohort are those of its
 * stages, each at its own endpoint and model. Costs are read from the ledger and always match it: holds count, and a
 * refund subtracts them.
 */
export async function readUsage(
  db: Kysely<Database>,
  accountId: string,
  { group, ...period }: Period & { group: UsageGroup },
): Promise<UsageRow[]> {
  const { low, high } = boundsOf(period)
  const { key, name } = GROUPS[group]
  const work = counted(group)
  const purse = `account:${accountId}`
  const { rows } = await sql<UsageRow>`
    with work as (
      select id, created_at, endpoint_id, key_id, model_key, ${work.task},
        coalesce(tokens_in, 0) as tokens_in, coalesce(tokens_out, 0) as tokens_out, price_micro > 0 as is_paid
      from task where account_id = any(array[${accountId}]::uuid[]) and id >= ${low} and id < ${high}
      union all
      select s.id, t.created_at, s.endpoint_id, t.key_id, s.model_key, ${work.stage},
        coalesce(s.tokens_in, 0), coalesce(s.tokens_out, 0), true
      from cohort_stage s join cohort c on c.id = s.cohort_id join task t on t.id = c.task_id
      where s.account_id = any(array[${accountId}]::uuid[]) and s.id >= ${low} and s.id < ${high}
    ), costs as (
      select task_id, sum(case when from_purse = ${purse} then amount_micro else -amount_micro end) as micro
      from work join ledger_transfer l on l.task_id = work.id
      where is_paid and kind in ('hold', 'refund') and ${purse} in (from_purse, to_purse)
      group by task_id
      union all
      select task_id, -sum(amount_micro) from work join ledger_entry e on e.task_id = work.id
      where is_paid and purse = ${purse} group by task_id
    ), grouped as (
      select ${sql.raw(key)} as "group", sum(request)::bigint as requests, sum(failure)::bigint as failed,
        sum(tokens_in)::bigint as tokens_in, sum(tokens_out)::bigint as tokens_out,
        coalesce(sum(micro), 0)::bigint as cost_micro
      from work left join costs on costs.task_id = work.id
      group by 1 having ${IS_USED}
    )
    select grouped.*, ${sql.raw(name)} as name from grouped order by "group" desc nulls last`.execute(db)
  return rows
}

const PLATFORM_GROUPS: Record<PlatformUsageGroup, { key: string; name: string }> = {
  day: GROUPS.day,
  account: {
    key: 'account_id::text',
    name: '(select name from account where account.id::text = grouped.group)',
  },
  model: GROUPS.model,
  node: { key: 'node_id::text', name: '(select name from node where node.id::text = grouped.group)' },
}

const MAX_GROUPS = 1_000

/**
 * Returns all accounts' usage in a period, counted as for a single account, for the groups with the most requests. A
 * task's node is the one that ended it.
 */
export async function readPlatformUsage(
  db: Kysely<Database>,
  { group, ...period }: Period & { group: PlatformUsageGroup },
): Promise<UsageRow[]> {
  const { low, high } = boundsOf(period)
  const { key, name } = PLATFORM_GROUPS[group]
  const work = counted(group)
  const { rows } = await sql<UsageRow>`
    with work as (
      select id, account_id, created_at, node_id, model_key, ${work.task},
        coalesce(tokens_in, 0) as tokens_in, coalesce(tokens_out, 0) as tokens_out, price_micro > 0 as is_paid
      from task where id >= ${low} and id < ${high}
      union all
      select s.id, s.account_id, t.created_at, s.node_id, s.model_key, ${work.stage},
        coalesce(s.tokens_in, 0), coalesce(s.tokens_out, 0), true
      from cohort_stage s join cohort c on c.id = s.cohort_id join task t on t.id = c.task_id
      where s.id >= ${low} and s.id < ${high}
    ), costs as (
      select task_id, sum(case kind when 'hold' then amount_micro else -amount_micro end) as micro
      from work join ledger_transfer l on l.task_id = work.id
      where is_paid and kind in ('hold', 'refund') group by task_id
      union all
      select task_id, -sum(amount_micro) from work join ledger_entry e on e.task_id = work.id
      where is_paid and purse = 'account:' || work.account_id group by task_id
    ), grouped as (
      select ${sql.raw(key)} as "group", sum(request)::bigint as requests, sum(failure)::bigint as failed,
        sum(tokens_in)::bigint as tokens_in, sum(tokens_out)::bigint as tokens_out,
        coalesce(sum(micro), 0)::bigint as cost_micro
      from work left join costs on costs.task_id = work.id
      group by 1 having ${IS_USED} order by requests desc, "group" limit ${MAX_GROUPS}
    )
    select grouped.*, ${sql.raw(name)} as name from grouped
    order by ${group === 'day' ? sql`"group" desc` : sql`requests desc, "group"`}`.execute(db)
  return rows
}
