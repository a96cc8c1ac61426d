import { type Kysely, sql } from 'kysely'
import { at } from '../../../domain/at.ts'
import { firstIdAt } from '../../../domain/uuid.ts'
import type { NodeModelState } from '../../../schemas/nodes/node.ts'
import type { OpenWork, RecentRequests } from '../../../schemas/operations.ts'
import type { Database } from '../../tables.ts'
import { isHeld } from '../tasks/waiting.ts'

/** Counts the work of all accounts that has not ended. Every branch reads only an index of open rows. */
export async function countOpenWork(db: Kysely<Database>): Promise<OpenWork[]> {
  const { rows } = await sql<OpenWork>`
    select kind, waiting::int as waiting, running::int as running,
      case when oldest is not null then greatest(0, extract(epoch from now() - oldest))::float8 end as oldest_waiting_s
    from (
      select 'task' as kind, 1 as position, count(*) filter (where status = 'queued') as waiting,
        count(*) filter (where status <> 'queued') as running,
        min(created_at) filter (where status = 'queued') as oldest
      from task where status not in ('succeeded', 'failed') and surface <> 'cohort'
      union all
      select given.kind, given.position, count(id) filter (where status = 'pending' and paused_at is null),
        count(id) filter (where status = 'running' and paused_at is null),
        min(created_at) filter (where status = 'pending' and paused_at is null)
      from (values ('training', 'run', 2), ('merge', 'merge', 3)) as given(job_type, kind, position)
      left join training_run on training_run.job_type = given.job_type
        and status in ('pending', 'running') and deleted_at is null
      group by given.kind, given.position
      union all
      select 'cohort', 4, count(*) filter (where status = 'queued'), count(*) filter (where status <> 'queued'),
        min(created_at) filter (where status = 'queued')
      from cohort where status not in ('succeeded', 'failed', 'cancelled')
      union all
      select 'webhook_delivery', 5,
        count(*) filter (where status = 'pending' or status = 'retrying' and next_attempt_at <= now()),
        count(*) filter (where status = 'delivering'),
        min(case when status = 'pending' then created_at else next_attempt_at end)
          filter (where status = 'pending' or status = 'retrying' and next_attempt_at <= now())
      from webhook_delivery where status in ('pending', 'delivering', 'retrying')
      union all
      select 'workflow_start', 6, count(*), 0, min(created_at) from workflow_start
    ) as counted order by position`.execute(db)
  return rows
}

/** The maximum number of requests that are read; under high load they cover less time. */
const MAX_REQUESTS = 20_000

/** Returns the counts and latencies of the newest requests of all accounts since a given time. */
export async function readRecentRequests(db: Kysely<Database>, since: Date): Promise<RecentRequests> {
  const { rows } = await sql<RecentRequests>`
    with recent as materialized (
      select status, created_at, extract(epoch from completed_at - created_at)::float8 * 1000 as ms
      from task where id >= ${firstIdAt(since)} order by id desc limit ${MAX_REQUESTS}
    )
    select greatest(0, extract(epoch from now() - case when count(*) < ${MAX_REQUESTS} then ${since}::timestamptz
        else min(created_at) end))::float8 as window_s,
      (count(*) filter (where status in ('succeeded', 'failed')))::int as requests,
      (count(*) filter (where status = 'failed'))::int as failed,
      percentile_cont(0.5) within group (order by ms) filter (where status = 'succeeded') as p50_ms,
      percentile_cont(0.95) within group (order by ms) filter (where status = 'succeeded') as p95_ms
    from recent`.execute(db)
  return at(rows, 0)
}

export interface NodeCounts {
  online: number
  draining: number
  offline: number
  /** Names of some nodes that are offline. */
  missing: { id: string; name: string }[]
}

/** Counts the nodes of the pool; those without a report since the given time are offline. */
export async function countNodes(db: Kysely<Database>, silentSince: Date): Promise<NodeCounts> {
  const { rows } = await sql<NodeCounts>`
    with seen as (
      select node.id, node.name, node.status, coalesce(s.updated_at > ${silentSince}, false) as fresh
      from node left join node_state s on s.node_id = node.id where node.status <> 'removed'
    )
    select (count(*) filter (where fresh and status = 'active'))::int as online,
      (count(*) filter (where fresh and status = 'draining'))::int as draining,
      (count(*) filter (where not fresh))::int as offline,
      coalesce((select jsonb_agg(jsonb_build_object('id', id, 'name', name)) from (
        select id, name from seen where not fresh order by id desc limit 5
      ) gone), '[]') as missing
    from seen`.execute(db)
  return at(rows, 0)
}

const MAX_NODE_NAMES = 1_000

/** Returns the names of the nodes of the pool, by id; the oldest first, if there are too many. */
export async function listNodeNames(db: Kysely<Database>): Promise<Map<string, string>> {
  const rows = await db
    .selectFrom('node')
    .select(['id', 'name'])
    .where('status', '!=', 'removed')
    .orderBy('id')
    .limit(MAX_NODE_NAMES)
    .execute()
  return new Map(rows.map(({ id, name }) => [id, name]))
}

const MAX_GATE_FAULTS = 20

/** Lists nodes that have reported since a given time and that cannot reach the gate, or whose calls it rejects. */
export async function listGateFaults(
  db: Kysely<Database>,
  silentSince: Date,
): Promise<{ id: string; name: string; reason: string }[]> {
  const { rows } = await sql<{ id: string; name: string; reason: string }>`
    select node.id, node.name, coalesce(s.snapshot -> 'gate_fault' ->> 'reason', '') as reason
    from node_state s join node on node.id = s.node_id
    where s.updated_at > ${silentSince} and node.status <> 'removed'
      and jsonb_typeof(s.snapshot -> 'gate_fault') = 'object'
    order by node.name, node.id limit ${MAX_GATE_FAULTS}`.execute(db)
  return rows
}

export interface ModelCounts {
  state: NodeModelState
  models: number
  copies: number
}

/** A model that a node cannot load. */
export interface FailingModel {
  model_key: string
  node: string
  error: string
}

const reported = (silentSince: Date) => sql`
  select node.name as node, m.value as model from node_state s join node on node.id = s.node_id,
    jsonb_array_elements(s.snapshot -> 'models') as m
  where s.updated_at > ${silentSince} and node.status <> 'removed' and jsonb_typeof(s.snapshot -> 'models') = 'array'`

/** Counts the models on the nodes that are online, by state. */
export async function countModels(db: Kysely<Database>, silentSince: Date): Promise<ModelCounts[]> {
  const { rows } = await sql<ModelCounts>`
    select model ->> 'state' as state, count(distinct model ->> 'model_key')::int as models, count(*)::int as copies
    from (${reported(silentSince)}) as reported group by 1 order by 1`.execute(db)
  return rows
}

const MAX_FAILING = 20

/** Lists models whose last load failed on a node that is online. */
export async function listFailingModels(db: Kysely<Database>, silentSince: Date): Promise<FailingModel[]> {
  const { rows } = await sql<FailingModel>`
    select distinct on (model ->> 'model_key') model ->> 'model_key' as model_key, node, model ->> 'error' as error
    from (${reported(silentSince)}) as reported where model ? 'error'
    order by 1, 2 limit ${MAX_FAILING}`.execute(db)
  return rows
}

/** A node that cannot use its GPUs. */
export interface GpuFaultOfNode {
  node_id: string
  name: string
  reason: string
}

/** Lists the online nodes that cannot use their GPUs. */
export async function listGpuFaults(db: Kysely<Database>, silentSince: Date): Promise<GpuFaultOfNode[]> {
  const { rows } = await sql<GpuFaultOfNode>`
    select node.id as node_id, node.name, s.snapshot -> 'gpu_fault' ->> 'reason' as reason
    from node_state s join node on node.id = s.node_id
    where s.updated_at > ${silentSince} and node.status <> 'removed' and s.snapshot ? 'gpu_fault'
    order by 2, 1 limit ${MAX_FAILING}`.execute(db)
  return rows
}

/** A node with a full disk. */
export interface FullNode {
  node_id: string
  name: string
  free_mb: number
}

/** Lists the online nodes whose disk is full. */
export async function listFullNodes(db: Kysely<Database>, silentSince: Date): Promise<FullNode[]> {
  const { rows } = await sql<FullNode>`
    select node.id as node_id, node.name, (s.snapshot -> 'disk_fault' ->> 'free_mb')::int as free_mb
    from node_state s join node on node.id = s.node_id
    where s.updated_at > ${silentSince} and node.status <> 'removed' and s.snapshot ? 'disk_fault'
    order by 2, 1 limit ${MAX_FAILING}`.execute(db)
  return rows
}

/** A reason why jobs are waiting, with one of the jobs. */
export interface WaitingReason {
  reason: string
  jobs: number
  job_id: string
}

/** Lists why jobs are waiting, the most common reason first. */
export async function listWaitingReasons(db: Kysely<Database>): Promise<WaitingReason[]> {
  const { rows } = await sql<WaitingReason>`
    select waiting_reason as reason, count(*)::int as jobs, (array_agg(id order by id))[1] as job_id
    from training_run where status in ('pending', 'running') and deleted_at is null and paused_at is null
      and waiting_reason is not null
    group by 1 order by 2 desc limit 5`.execute(db)
  return rows
}

/**
 * The tasks that no node can run, and the models that most of them need. Leaves out tasks that only wait behind a
 * running batch of their account and model.
 */
export interface UnplacedTasks {
  tasks: number
  oldest_s: number | null
  models: string[]
}

export async function readUnplaced(db: Kysely<Database>): Promise<UnplacedTasks> {
  const { rows } = await sql<UnplacedTasks>`
    with waiting as (
      select model_key, count(*) as tasks, min(waiting_since) as since
      from task where waiting_since is not null and status = 'queued' and (account_id, model_key) not in (
        select account_id, model_key from task where ${isHeld}
      ) group by 1
    )
    select coalesce(sum(tasks), 0)::int as tasks, extract(epoch from now() - min(since))::float8 as oldest_s,
      coalesce((array_agg(model_key order by tasks desc))[1:5], '{}') as models
    from waiting`.execute(db)
  return at(rows, 0)
}

/** Counts the public endpoints that are waiting for a review. */
export async function countReviews(db: Kysely<Database>): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from endpoint where review_status = 'pending_review' and deleted_at is null`.execute(
    db,
  )
  return rows[0]?.count ?? 0
}

/** A gateway with a lease. */
export interface LiveGateway {
  id: string
  base_url: string
  started_at: Date
  nodes: number
}

export async function listGateways(db: Kysely<Database>, silentSince: Date): Promise<LiveGateway[]> {
  const { rows } = await sql<LiveGateway>`
    select id, base_url, started_at, (
      select count(*)::int from node_state s where s.gateway_id = gateway.id and s.updated_at > ${silentSince}
    ) as nodes
    from gateway where lease_expires_at > now() order by started_at, id limit 1000`.execute(db)
  return rows
}

/** Lists the queues that open jobs are waiting in. */
export async function listJobQueues(db: Kysely<Database>): Promise<string[]> {
  const { rows } = await sql<{ task_queue: string }>`
    select distinct task_queue from training_run where status in ('pending', 'running') and paused_at is null order by 1 limit 50`.execute(
    db,
  )
  return rows.map(({ task_queue }) => task_queue)
}
