import type { Kysely } from 'kysely'
import type { Database } from '../tables.ts'

/** One task or job, handed to one node. */
export interface Dispatch {
  kind: 'task' | 'job'
  subjectId: string
  nodeId: string
}

/** Records that a node was handed a task or job, before it hears of it. Safe to repeat. */
export async function recordDispatch(
  db: Kysely<Database>,
  { kind, subjectId, nodeId }: Dispatch,
): Promise<void> {
  await db
    .insertInto('node_dispatch')
    .values({ kind, subject_id: subjectId, node_id: nodeId })
    .onConflict((oc) => oc.columns(['subject_id', 'node_id']).doNothing())
    .execute()
}
