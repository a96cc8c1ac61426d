import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'

/** A task or job that was handed to a node. */
export interface Dispatch {
  kind: 'task' | 'job'
  subjectId: string
  nodeId: string
}

/**
 * Records that a task or job is handed to a node, before the node receives it. Safe to repeat until then. Its timestamp
 * is later than all earlier ones, even if the database clock has been set back.
 */
export async function recordDispatch(
  db: Kysely<Database>,
  { kind, subjectId, nodeId }: Dispatch,
): Promise<void> {
  await sql`
    insert into node_dispatch (kind, subject_id, node_id, dispatched_at)
    select ${kind}, ${subjectId}::uuid, ${nodeId}::uuid, greatest(now(),
      (select max(dispatched_at) + interval '1 microsecond' from node_dispatch where subject_id = ${subjectId}::uuid),
      (select max(created_at) + interval '1 microsecond' from lease where kind = ${kind} and subject_id = ${subjectId}::uuid))
    on conflict (subject_id, node_id) do update set dispatched_at = excluded.dispatched_at`.execute(db)
}

const SUBJECTS = { task: sql.table('task'), job: sql.table('training_run') } as const

/**
 * Returns whether a node may claim a task or job: the work was handed to this node last, no lease on it has ended since
 * then, and the node still works for its account. If the task or job is locked, the result also holds for the claim.
 */
export async function mayClaim(
  db: Kysely<Database>,
  { kind, subjectId, nodeId }: Dispatch,
): Promise<boolean> {
  const { rows } = await sql`
    select 1 from node_dispatch handed, ${SUBJECTS[kind]} subject, node
    where handed.kind = ${kind} and handed.subject_id = subject.id and handed.node_id = node.id and subject.id = ${subjectId}::uuid and node.id = ${nodeId}::uuid
      and (node.sharing = 'shared' or node.account_id = subject.account_id)
      and not exists (
        select 1 from node_dispatch later
        where later.subject_id = handed.subject_id and later.kind = handed.kind and later.dispatched_at > handed.dispatched_at)
      and not exists (
        select 1 from lease
        where lease.kind = handed.kind and lease.subject_id = handed.subject_id and lease.node_id = handed.node_id
          and lease.state <> 'active' and lease.created_at >= handed.dispatched_at)`.execute(db)
  return rows.length > 0
}
