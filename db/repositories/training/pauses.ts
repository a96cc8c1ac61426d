import { type Kysely, sql, type Transaction } from 'kysely'
import type { Database } from '../../tables.ts'
import type { JobRow } from '../../tables/training.ts'
import { insertJobEvents, insertJobLine } from './job-records.ts'

/** The reason that a paused run gives for waiting. */
const PAUSED = 'the run is paused'

/**
 * Marks a locked open run as paused. From then on no attempt can be claimed, and the current one is signalled to stop.
 */
export async function pauseRun(
  trx: Transaction<Database>,
  { id, attempt }: Pick<JobRow, 'id' | 'attempt'>,
  now: Date,
): Promise<void> {
  await trx
    .updateTable('training_run')
    .set({ paused_at: now, waiting_reason: PAUSED, waiting_since: now })
    .where('id', '=', id)
    .execute()
  await insertJobEvents(trx, [{ jobId: id, type: 'paused', occurrence: now.toISOString() }], now)
  await insertJobLine(trx, { jobId: id, attempt }, 'Paused.', now)
}

/** Resumes a locked paused run, so that it waits for a node, with the reason if no node can take it. */
export async function resumeRun(
  trx: Transaction<Database>,
  { id, attempt }: Pick<JobRow, 'id' | 'attempt'>,
  { columns, notes }: { columns: Pick<JobRow, 'waiting_reason' | 'waiting_since'>; notes: readonly string[] },
  now: Date,
): Promise<void> {
  await trx
    .updateTable('training_run')
    .set({ paused_at: null, ...columns })
    .where('id', '=', id)
    .execute()
  const event = { jobId: id, type: 'queued', occurrence: now.toISOString(), detail: 'after a pause' } as const
  await insertJobEvents(trx, [event], now)
  for (const line of ['Resumed after a pause.', ...notes]) {
    await insertJobLine(trx, { jobId: id, attempt }, line, now)
  }
}

/** Returns whether a run is paused and no node is working on it; it then rests until it is resumed. */
export async function isAtRest(db: Kysely<Database>, id: string): Promise<boolean> {
  const { rows } = await sql`
    select 1 from training_run where id = ${id}::uuid and paused_at is not null and not exists (
      select 1 from lease where kind = 'job' and subject_id = training_run.id and state = 'active'
    )`.execute(db)
  return rows.length > 0
}

/** Returns whether a run is paused, for the node that is working on it. */
export async function isPaused(db: Kysely<Database>, id: string): Promise<boolean> {
  const row = await db
    .selectFrom('training_run')
    .select('id')
    .where('id', '=', id)
    .where('paused_at', 'is not', null)
    .executeTakeFirst()
  return row !== undefined
}
