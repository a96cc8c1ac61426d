import { type Kysely, sql, type Transaction } from 'kysely'
import type { NodeEligibility } from '../../../domain/waiting.ts'
import type { Database } from '../../tables.ts'
import type { JobRow } from '../../tables/training.ts'
import { insertJobLine } from './job-records.ts'

/** A node is online if a gateway has received a report from it within this time. */
const REPORT_TTL_S = 30

/** Lists every node that has not been removed, with the facts that decide whether it can run a job. */
export async function listNodeEligibility(db: Kysely<Database>): Promise<NodeEligibility[]> {
  const { rows } = await sql<NodeEligibility>`
    select node.name, node.account_id, node.sharing, node.hardware,
      state.node_id is not null as is_online,
      -- Compared and read as JSON: what one node says of itself fails the look at no other.
      node.status = 'draining' or coalesce(state.snapshot -> 'draining' = 'true'::jsonb, false) as is_draining,
      coalesce(state.snapshot ? 'disk_fault', false) as is_disk_full,
      coalesce(state.snapshot #> '{gpu_fault,takes_no_runs}' = 'true'::jsonb, false) as has_gpu_fault,
      node.inventory -> 'train_slots' as train_slots
    from node
    left join node_state state on state.node_id = node.id
      and state.updated_at > now() - make_interval(secs => ${REPORT_TTL_S})
    where node.status <> 'removed'
    order by node.id
  `.execute(db)
  return rows
}

/** An open, unpaused job that no node is running, or that still has a waiting reason although a node is running it. */
export type UnheldJob = Pick<JobRow, 'id' | 'account_id' | 'task_queue' | 'attempt' | 'waiting_reason'> & {
  is_held: boolean
}

export async function listUnheldJobs(
  db: Kysely<Database>,
  { after, limit }: { after: string | null; limit: number },
): Promise<UnheldJob[]> {
  const { rows } = await sql<UnheldJob>`
    select id, account_id, task_queue, attempt, waiting_reason, is_held
    from training_run
    cross join lateral (
      select exists (
        select 1 from lease where kind = 'job' and subject_id = training_run.id and state = 'active' and expires_at > now()
      ) as is_held
    ) held
    where status in ('pending', 'running') and deleted_at is null and paused_at is null
      and (${after}::uuid is null or id > ${after}::uuid)
      and (not is_held or waiting_reason is not null)
    order by id limit ${limit}
  `.execute(db)
  return rows
}

/**
 * Stores why a job is waiting, or that it no longer is, and adds a log line (`over` if it is no longer waiting);
 * returns false if nothing changed.
 */
export async function noteWaiting(
  trx: Transaction<Database>,
  { id, attempt }: Pick<UnheldJob, 'id' | 'attempt'>,
  reason: string | null,
  now: Date,
  over = 'A node that can take this job is online.',
): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('training_run')
    .set({
      waiting_reason: reason,
      waiting_since: reason === null ? null : sql<Date>`coalesce(waiting_since, ${now})`,
    })
    .where('id', '=', id)
    .where('attempt', '=', attempt)
    .where('status', 'in', ['pending', 'running'])
    .where('paused_at', 'is', null)
    .where('waiting_reason', 'is distinct from', reason)
    .executeTakeFirst()
  if (numUpdatedRows === 0n) return false
  const line = reason === null ? over : `Waiting: ${reason}.`
  await insertJobLine(trx, { jobId: id, attempt }, line, now)
  return true
}
