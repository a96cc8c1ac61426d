import type { Kysely } from 'kysely'
import { sql } from 'kysely'
import type { Database } from '../../tables.ts'

export interface NodePair {
  from: string
  to: string
}

/** Returns whether a pair of nodes may try to connect; false for a while after no address answered. */
export async function isReachable(db: Kysely<Database>, { from, to }: NodePair): Promise<boolean> {
  const pair = await db
    .selectFrom('edge_rate')
    .select('from_node_id')
    .where('from_node_id', '=', from)
    .where('to_node_id', '=', to)
    .where('unreachable_until', '>', sql<Date>`now()`)
    .executeTakeFirst()
  return pair === undefined
}
