import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'
import type { NodeRow } from '../../tables/nodes.ts'

/** What decides which work a node may ask for. */
export interface NodeStanding extends Pick<NodeRow, 'account_id' | 'status' | 'sharing' | 'hardware'> {
  id: string
  /** Keys of the models whose load here the platform ordered. */
  ordered: ReadonlySet<string>
}

/** How these nodes stand now; nodes that do not exist are left out. */
export async function readNodeStandings(
  db: Kysely<Database>,
  nodeIds: readonly string[],
): Promise<NodeStanding[]> {
  const rows = await db
    .selectFrom('node')
    .select(['id', 'account_id', 'status', 'sharing', 'hardware'])
    .select(
      sql<string[]>`array(select model_key from node_model_order where node_id = node.id)`.as('ordered'),
    )
    .where('id', '=', sql<string>`any(${[...nodeIds]}::uuid[])`)
    .execute()
  return rows.map(({ ordered, ...row }) => ({ ...row, ordered: new Set(ordered) }))
}
