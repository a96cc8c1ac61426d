import { type Kysely, sql } from 'kysely'
import type { Database } from '../../tables.ts'
import type { JobRow } from '../../tables/training.ts'

/** Stores the commit that a run's base was resolved to, unless there is one already, and returns the stored one. */
export async function pinBaseRevision(
  db: Kysely<Database>,
  jobId: string,
  revision: string,
): Promise<string> {
  const row = await db
    .updateTable('training_run')
    .set({ base_revision: sql<string>`coalesce(base_revision, ${revision})` })
    .where('id', '=', jobId)
    .returning('base_revision')
    .executeTakeFirst()
  return row?.base_revision ?? revision
}

/** Returns the base commit of the run whose checkpoint this one resumes from. */
export async function findRevisionToResume(
  db: Kysely<Database>,
  { id, account_id, config_digest }: Pick<JobRow, 'id' | 'account_id' | 'config_digest'>,
): Promise<string | undefined> {
  const row = await db
    .selectFrom('job_checkpoint')
    .innerJoin('training_run', 'training_run.id', 'job_checkpoint.job_id')
    .select('training_run.base_revision')
    .where('training_run.account_id', '=', account_id)
    .where('training_run.config_digest', '=', config_digest)
    .where('training_run.id', '!=', id)
    .where('training_run.status', 'in', ['failed', 'cancelled'])
    .where('training_run.deleted_at', 'is', null)
    .orderBy('job_checkpoint.id', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row?.base_revision ?? undefined
}
