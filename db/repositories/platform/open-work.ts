import { type Kysely, sql } from 'kysely'
import { TERMINAL_TASK_STATUSES } from '../../../domain/inference-task.ts'
import type { Database } from '../../tables.ts'
import type { JobRow } from '../../tables/training.ts'

/** Younger rows are left to whoever is at them. */
const SETTLED_S = 20
/** How long a gateway without a lease is remembered. */
const DEAD_GATEWAY = '1 hour'
/** A lease that ran out is closed only later: a node that was cut off for a while may still renew it. */
const LAPSED_LEASE = '5 minutes'

interface PageAfter {
  after: string | null
  limit: number
}

/** Whether tasks of other accounts than its owner's are under way on an endpoint. */
export async function hasForeignTasks(
  db: Kysely<Database>,
  { id, account_id }: { id: string; account_id: string },
): Promise<boolean> {
  const task = await db
    .selectFrom('task')
    .select('id')
    .where('endpoint_id', '=', id)
    .where('account_id', '<>', account_id)
    .where('status', 'not in', TERMINAL_TASK_STATUSES)
    .limit(1)
    .executeTakeFirst()
  return task !== undefined
}

/** A run that has not ended, and what its workflow is started with. */
export type OpenJob = Pick<
  JobRow,
  'id' | 'account_id' | 'job_type' | 'model_config_id' | 'job_name' | 'operating_mode'
>

/** Open runs whose workflow should be there by now: its start is not among those still enqueued. */
export async function openJobs(db: Kysely<Database>, { after, limit }: PageAfter): Promise<OpenJob[]> {
  const { rows } = await sql<OpenJob>`
    with open as materialized (
      select id, account_id, job_type, model_config_id, job_name, operating_mode from training_run
      where status in ('pending', 'running') and deleted_at is null
        and created_at < now() - make_interval(secs => ${SETTLED_S})
    )
    select * from open
    where (${after}::uuid is null or id > ${after}::uuid)
      and not exists (select 1 from workflow_start s where s.workflow_id = 'job/' || open.id)
    order by id limit ${limit}`.execute(db)
  return rows
}

/** A task that a workflow has, or should have. */
export interface OpenTask {
  id: string
  account_id: string
  model_key: string
}

/** Open tasks that no gateway finishes itself and whose workflow should be there by now. */
export async function openTasks(db: Kysely<Database>, { after, limit }: PageAfter): Promise<OpenTask[]> {
  const { rows } = await sql<OpenTask>`
    with open as materialized (
      select id, account_id, model_key from task
      where status not in ('succeeded', 'failed') and gateway_id is null
        and created_at < now() - make_interval(secs => ${SETTLED_S})
    )
    select * from open
    where (${after}::uuid is null or id > ${after}::uuid)
      and not exists (select 1 from workflow_start s where s.workflow_id = 'task/' || open.id)
    order by id limit ${limit}`.execute(db)
  return rows
}

/** Closes leases that nobody renewed and nobody took over. */
export async function expireLeases(db: Kysely<Database>, limit: number): Promise<number> {
  const { numAffectedRows } = await sql`
    update lease set state = 'expired', closed_at = now()
    where token = any(array(
      select token from lease
      where state = 'active' and expires_at < now() - ${LAPSED_LEASE}::interval
      order by expires_at limit ${limit}
      for update skip locked
    ))`.execute(db)
  return Number(numAffectedRows ?? 0)
}

/** Forgets gateways that are long gone and own nothing any more. */
export async function removeDeadGateways(db: Kysely<Database>): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from gateway g
    where lease_expires_at < now() - ${DEAD_GATEWAY}::interval
      and not exists (
        select 1 from task where gateway_id = g.id and status not in ('succeeded', 'failed')
      )`.execute(db)
  return Number(numAffectedRows ?? 0)
}
