import { type Kysely, sql } from 'kysely'
import type { WorkItemKind } from '../../../schemas/operations.ts'
import type { Database } from '../../tables.ts'

/** A piece of work. */
export interface OpenItem {
  id: string
  account_id: string
  status: string
  /** The model of a task, or the config of a run. */
  subject: string | null
  node_id: string | null
  created_at: Date
  waiting_reason: string | null
  /** Null for a request that a gateway handles without a workflow. */
  workflow_id: string | null
}

interface ItemPage {
  kind: WorkItemKind
  accountId?: string | null | undefined
  /** Finds only this item, whether or not it has ended. */
  id?: string | null | undefined
  before?: string | null | undefined
  limit: number
}

const job = sql`
  select id, account_id, status, model_config_id as subject, created_at, waiting_reason, 'job/' || id as workflow_id, (
    select node_id from lease where kind = 'job' and subject_id = training_run.id and state = 'active'
  ) as node_id
  from training_run where deleted_at is null`

/** The query for each kind. */
const WORK = {
  task: sql`
    select id, account_id, status, model_key as subject, node_id, created_at,
      case when waiting_since is not null and status = 'queued' then 'no node has room or a slot for it now' end as waiting_reason,
      case when gateway_id is null then 'task/' || id end as workflow_id
    from task where surface <> 'cohort'`,
  run: sql`${job} and job_type = 'training'`,
  merge: sql`${job} and job_type = 'merge'`,
  cohort: sql`
    select id, account_id, status, name as subject, null::uuid as node_id, created_at, null as waiting_reason,
      'cohort/' || id as workflow_id
    from cohort where true`,
} satisfies Record<WorkItemKind, unknown>

const OPEN_JOB = sql`status in ('pending', 'running')`
/** The condition for open items of each kind; each query reads only an index of open rows. */
const OPEN = {
  task: sql`status not in ('succeeded', 'failed')`,
  run: OPEN_JOB,
  merge: OPEN_JOB,
  cohort: sql`status not in ('succeeded', 'failed', 'cancelled')`,
} satisfies Record<WorkItemKind, unknown>

/** Lists open work of one kind, of all accounts or of one, newest first; or the work with an id. */
export async function listOpenItems(
  db: Kysely<Database>,
  { kind, accountId = null, id, before = null, limit }: ItemPage,
): Promise<OpenItem[]> {
  const { rows } = await sql<OpenItem>`
    ${WORK[kind]} and ${id ? sql`id = ${id}` : OPEN[kind]}
      and (${accountId}::uuid is null or account_id = ${accountId}::uuid)
      and (${before}::uuid is null or id < ${before}::uuid)
    order by id desc limit ${limit}`.execute(db)
  return rows
}
