import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'
import type { NodeRow } from '../../tables/nodes.ts'

/** The facts that decide which queues a node may poll. */
export interface NodePermissions extends Pick<NodeRow, 'account_id' | 'status' | 'sharing' | 'hardware'> {
  id: string
  /** Keys of the models whose load on this node the platform ordered. */
  ordered: ReadonlySet<string>
}

/** Reads the permissions of several nodes; nodes that do not exist are left out. */
export async function listNodePermissions(
  db: Kysely<Database>,
  nodeIds: readonly string[],
): Promise<NodePermissions[]> {
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
