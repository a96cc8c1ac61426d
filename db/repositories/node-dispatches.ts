import { type Kysely, sql } from 'kysely'
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

const SUBJECTS = { task: sql.table('task'), job: sql.table('training_run') } as const

/** Whether a node may claim a task or job: it was handed it, and is still given the work of that account. */
export async function mayClaim(
  db: Kysely<Database>,
  { kind, subjectId, nodeId }: Dispatch,
): Promise<boolean> {
  const { rows } = await sql`
    select 1 from node_dispatch handed, ${SUBJECTS[kind]} subject, node
    where handed.kind = ${kind} and handed.subject_id = subject.id and handed.node_id = node.id and subject.id = ${subjectId}::uuid and node.id = ${nodeId}::uuid
      and (node.sharing = 'shared' or node.account_id = subject.account_id)`.execute(db)
  return rows.length > 0
}
