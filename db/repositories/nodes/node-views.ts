import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'
import type { LeaseRow, NodeRow } from '../../tables/nodes.ts'
import { ordered, pinned } from './nodes.ts'

/** A node with its last report and the decisions about its models. */
export type ViewedNode = NodeRow & {
  snapshot: Record<string, unknown> | null
  updated_at: Date | null
  ordered: string[]
}

interface NodeFilter {
  status: 'online' | 'offline' | 'draining' | undefined
  accountId: string | undefined
  /** Part of the name; case-insensitive. */
  name: string | undefined
  /** Nodes whose last report is older are offline. */
  silentSince: Date
}

/** Returns a page of the nodes that have not been removed, with their last reports, newest first. */
export function listNodes(
  db: Kysely<Database>,
  {
    before,
    limit,
    status,
    accountId,
    name,
    silentSince,
  }: NodeFilter & { before: string | undefined; limit: number },
): Promise<ViewedNode[]> {
  let query = viewed(db).where('node.status', '!=', 'removed').orderBy('node.id', 'desc').limit(limit)
  const isFresh = sql<boolean>`coalesce(node_state.updated_at > ${silentSince}, false)`
  if (status === 'offline') query = query.where(sql<boolean>`not ${isFresh}`)
  if (status === 'online') query = query.where(isFresh).where('node.status', '=', 'active')
  if (status === 'draining') query = query.where(isFresh).where('node.status', '=', 'draining')
  if (accountId !== undefined) query = query.where('node.account_id', '=', accountId)
  if (name !== undefined) query = query.where(sql<boolean>`position(lower(${name}) in lower(node.name)) > 0`)
  if (before !== undefined) query = query.where('node.id', '<', before)
  return query.execute()
}

/** Finds a node, removed or not, with the gateway that has its link and the models that are pinned on it. */
export function findNodeView(
  db: Kysely<Database>,
  nodeId: string,
): Promise<
  (ViewedNode & { pinned: string[]; gateway_id: string | null; gateway_url: string | null }) | undefined
> {
  return viewed(db)
    .leftJoin('gateway', 'gateway.id', 'node_state.gateway_id')
    .select([pinned, 'node_state.gateway_id', 'gateway.base_url as gateway_url'])
    .where('node.id', '=', nodeId)
    .executeTakeFirst()
}

const viewed = (db: Kysely<Database>) =>
  db
    .selectFrom('node')
    .leftJoin('node_state', 'node_state.node_id', 'node.id')
    .selectAll('node')
    .select(['node_state.snapshot', 'node_state.updated_at', ordered])

/** Work for which a node holds a lease. */
export type LeasedWork = Pick<
  LeaseRow,
  'kind' | 'subject_id' | 'account_id' | 'attempt' | 'created_at' | 'expires_at'
> & {
  workflow_id: string
}

const MAX_HELD = 500

/** Lists a node's work in progress, newest first. */
export async function listHeldWork(db: Kysely<Database>, nodeId: string): Promise<LeasedWork[]> {
  const { rows } = await sql<LeasedWork>`
    select lease.kind, subject_id, lease.account_id, lease.attempt, lease.created_at, expires_at,
      case lease.kind when 'stage' then 'cohort/' || cohort_stage.cohort_id else lease.kind || '/' || subject_id end
        as workflow_id
    from lease left join cohort_stage on lease.kind = 'stage' and cohort_stage.id = subject_id
    where lease.state = 'active' and lease.node_id = ${nodeId}
    order by lease.created_at desc limit ${MAX_HELD}`.execute(db)
  return rows
}

/** A log line that a job wrote on a node. */
export interface NodeLogLine {
  job_id: string
  attempt: number
  seq: number
  message: string
  created_at: Date
}

/** Logs are read for this many of a node's latest jobs. */
const RECENT_JOBS = 20

/** Returns the newest log lines of a node's latest jobs, oldest line first. */
export async function listNodeLogs(
  db: Kysely<Database>,
  nodeId: string,
  limit: number,
): Promise<NodeLogLine[]> {
  const { rows } = await sql<NodeLogLine>`
    with job as materialized (
      select subject_id as job_id, attempt from lease
      where kind = 'job' and node_id = ${nodeId} order by created_at desc limit ${RECENT_JOBS}
    )
    select line.* from job, lateral (
      select job_id, attempt, seq, message, created_at from job_log
      where job_log.job_id = job.job_id and job_log.attempt = job.attempt
      order by seq desc limit ${limit}
    ) line
    order by created_at desc, job_id, attempt, seq desc limit ${limit}`.execute(db)
  return rows.toReversed()
}
