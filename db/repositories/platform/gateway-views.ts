import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'

export interface GatewayViewRow {
  id: string
  base_url: string
  live: boolean
  started_at: Date
  lease_expires_at: Date
  nodes: number
  open_tasks: number
  kill_switch_acknowledged: boolean
}

/** Counting stops here. */
const MAX_TASKS = 10_000

/** Returns a page of the gateways that have, or recently had, a lease, newest first. */
export async function listGatewayViews(
  db: Kysely<Database>,
  {
    before = null,
    limit,
    silentSince,
  }: { before?: string | null | undefined; limit: number; silentSince: Date },
): Promise<GatewayViewRow[]> {
  const { rows } = await sql<GatewayViewRow>`
    select g.id, g.base_url, g.lease_expires_at > now() as live, g.started_at, g.lease_expires_at,
      g.kill_switch_version = (select version from kill_switch) as kill_switch_acknowledged,
      (select count(*)::int from node_state s where s.gateway_id = g.id and s.updated_at > ${silentSince}) as nodes,
      (select count(*)::int from (
        select from task where gateway_id = g.id and status not in ('succeeded', 'failed') limit ${MAX_TASKS}
      ) open) as open_tasks
    from gateway g where ${before}::uuid is null or g.id < ${before}::uuid
    order by g.id desc limit ${limit}`.execute(db)
  return rows
}
