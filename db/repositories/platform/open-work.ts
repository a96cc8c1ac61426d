import { type Kysely, sql } from 'kysely'
import { TERMINAL_TASK_STATUSES } from '../../../domain/inference-task.ts'
import type { Database } from '../../tables.ts'
import type { JobRow } from '../../tables/training.ts'

/** Younger rows are skipped, because their owner may still be creating the workflow. */
const START_DELAY_S = 20
/** How long a gateway without a lease stays in the table. */
const DEAD_GATEWAY = '1 hour'
/** The delay before an expired lease is closed, because a node that was disconnected for a while may still renew it. */
const LAPSED_LEASE = '5 minutes'

interface PageRange {
  after: string | null
  limit: number
}

/** Returns whether an endpoint has open tasks from accounts other than its owner's. */
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

/** A run that has not ended, with the input of its workflow. */
export type OpenJob = Pick<
  JobRow,
  'id' | 'account_id' | 'job_type' | 'model_config_id' | 'job_name' | 'operating_mode'
>

/**
 * Lists open runs whose workflow should exist by now, because its start is no longer enqueued. A paused run needs no
 * workflow, unless its result was submitted in the meantime.
 */
export async function openJobs(db: Kysely<Database>, { after, limit }: PageRange): Promise<OpenJob[]> {
  const { rows } = await sql<OpenJob>`
    with open as materialized (
      select id, account_id, job_type, model_config_id, job_name, operating_mode from training_run
      where status in ('pending', 'running') and deleted_at is null
        and created_at < now() - make_interval(secs => ${START_DELAY_S})
        and (paused_at is null or exists (
          select 1 from lease where kind = 'job' and subject_id = training_run.id and state = 'completed'))
    )
    select * from open
    where (${after}::uuid is null or id > ${after}::uuid)
      and not exists (select 1 from workflow_start s where s.workflow_id = 'job/' || open.id)
    order by id limit ${limit}`.execute(db)
  return rows
}

/** A task that a workflow owns. */
export interface OpenTask {
  id: string
  account_id: string
  model_key: string
}

/** Lists open tasks without a gateway whose workflow should exist by now. */
export async function openTasks(db: Kysely<Database>, { after, limit }: PageRange): Promise<OpenTask[]> {
  const { rows } = await sql<OpenTask>`
    with open as materialized (
      select id, account_id, model_key from task
      where status not in ('succeeded', 'failed') and gateway_id is null and surface <> 'cohort'
        and created_at < now() - make_interval(secs => ${START_DELAY_S})
    )
    select * from open
    where (${after}::uuid is null or id > ${after}::uuid)
      and not exists (select 1 from workflow_start s where s.workflow_id = 'task/' || open.id)
    order by id limit ${limit}`.execute(db)
  return rows
}

/** A cohort that has not ended, with the input of its workflow. */
export interface OpenCohort {
  id: string
  account_id: string
  name: string | null
  stages: number
  nodes: number
  model_key: string
}

/** Lists open cohorts whose workflow should exist by now. */
export async function openCohorts(db: Kysely<Database>, { after, limit }: PageRange): Promise<OpenCohort[]> {
  const { rows } = await sql<OpenCohort>`
    with open as materialized (
      select id, account_id, name from cohort
      where status not in ('succeeded', 'failed', 'cancelled')
        and created_at < now() - make_interval(secs => ${START_DELAY_S})
    )
    select open.*, of.stages, of.nodes, of.model_key
    from open, lateral (
      select count(*)::int as stages, count(distinct planned_node_id)::int as nodes,
        (array_agg(model_key order by position desc))[1] as model_key
      from cohort_stage where cohort_id = open.id
    ) as of
    where (${after}::uuid is null or id > ${after}::uuid)
      and not exists (select 1 from workflow_start s where s.workflow_id = 'cohort/' || open.id)
    order by id limit ${limit}`.execute(db)
  return rows
}

/** Closes leases that have expired without being renewed or taken over. */
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

/** Deletes gateways that have been dead for a long time and own no rows. */
export async function removeDeadGateways(db: Kysely<Database>): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from gateway g
    where lease_expires_at < now() - ${DEAD_GATEWAY}::interval
      and not exists (
        select 1 from task where gateway_id = g.id and status not in ('succeeded', 'failed')
      )`.execute(db)
  return Number(numAffectedRows ?? 0)
}
