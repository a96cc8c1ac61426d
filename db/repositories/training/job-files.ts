import { type Insertable, type Kysely, sql, type Transaction } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import { type LeaseFile, leaseFileKey } from '../../../domain/object-keys.ts'
import type { Database } from '../../tables.ts'
import type { ArtifactRow, ArtifactTable, JobCheckpointRow, JobRow } from '../../tables/training.ts'

/** The folder of a job's files; deleting the job deletes the folder. */
export const jobFolder = ({ account_id, id }: Pick<JobRow, 'account_id' | 'id'>): string =>
  `accounts/${account_id}/jobs/${id}/`

/** Each attempt has its own key, so that late writes from a lost node do no harm. */
export const attemptFile = (
  job: Pick<JobRow, 'account_id' | 'id'>,
  { attempt, ...file }: LeaseFile & { attempt: number },
): string => jobFolder(job) + leaseFileKey(attempt, file)

export type NewArtifact = Omit<Insertable<ArtifactTable>, 'id' | 'last_modified'>

/** Stores the files of a finished model in place of those of an earlier attempt. */
export async function replaceArtifacts(
  trx: Transaction<Database>,
  jobId: string,
  artifacts: readonly NewArtifact[],
  now: Date,
): Promise<void> {
  await trx.deleteFrom('artifact').where('job_id', '=', jobId).execute()
  await trx
    .insertInto('artifact')
    .values(artifacts.map((one) => ({ id: newId(), last_modified: now, ...one })))
    .execute()
}

/**
 * Lists runs that ended at least a day ago and whose attempts may have left unreferenced files. For a deleted run, that
 * is every file, because an upload in progress may have ended after the deletion.
 */
export function unsweptRuns(
  db: Kysely<Database>,
  limit: number,
): Promise<Pick<JobRow, 'id' | 'account_id'>[]> {
  return db
    .selectFrom('training_run')
    .select(['id', 'account_id'])
    .where('completed_at', '<', sql<Date>`now() - interval '24 hours'`)
    .where('files_swept_at', 'is', null)
    .orderBy('completed_at')
    .limit(limit)
    .execute()
}

/** Returns the keys of a run's artifacts and checkpoints. */
export async function listJobFileKeys(db: Kysely<Database>, jobId: string): Promise<Set<string>> {
  const rows = await db
    .selectFrom('artifact')
    .select('object_key')
    .where('job_id', '=', jobId)
    .unionAll(db.selectFrom('job_checkpoint').select('object_key').where('job_id', '=', jobId))
    .execute()
  return new Set(rows.map(({ object_key }) => object_key))
}

export async function noteSwept(db: Kysely<Database>, jobId: string): Promise<void> {
  await db
    .updateTable('training_run')
    .set({ files_swept_at: sql<Date>`now()` })
    .where('id', '=', jobId)
    .execute()
}

export function listArtifacts(db: Kysely<Database>, jobId: string): Promise<ArtifactRow[]> {
  return db.selectFrom('artifact').selectAll().where('job_id', '=', jobId).orderBy('filename').execute()
}

/** Stores a checkpoint. Safe to repeat, because a file is stored as only one checkpoint. */
export async function insertCheckpoint(
  trx: Transaction<Database>,
  checkpoint: Omit<JobCheckpointRow, 'id' | 'created_at'>,
): Promise<string> {
  const row = await trx
    .insertInto('job_checkpoint')
    .values({ id: newId(), ...checkpoint })
    .onConflict((oc) =>
      oc.column('object_key').doUpdateSet((eb) => ({
        epoch: eb.ref('excluded.epoch'),
        size_bytes: eb.ref('excluded.size_bytes'),
        sha256: eb.ref('excluded.sha256'),
      })),
    )
    .returning('id')
    .executeTakeFirstOrThrow()
  return row.id
}

/** Lists a job's stored checkpoints, newest first. */
export function listCheckpoints(db: Kysely<Database>, jobId: string): Promise<JobCheckpointRow[]> {
  return db
    .selectFrom('job_checkpoint')
    .selectAll()
    .where('job_id', '=', jobId)
    .orderBy('id', 'desc')
    .execute()
}

/** Deletes all but the newest `keep` checkpoints of a job, and returns the objects that are no longer needed. */
export async function pruneCheckpoints(db: Kysely<Database>, jobId: string, keep: number): Promise<string[]> {
  const newest = db
    .selectFrom('job_checkpoint')
    .select('id')
    .where('job_id', '=', jobId)
    .orderBy('id', 'desc')
    .limit(keep)
  const deleted = await db
    .deleteFrom('job_checkpoint')
    .where('job_id', '=', jobId)
    .where('id', 'not in', newest)
    .returning('object_key')
    .execute()
  return deleted.map(({ object_key }) => object_key)
}

/** Returns the epoch of a job's newest checkpoint; -1 if there is none. */
export async function checkpointEpoch(db: Kysely<Database>, jobId: string): Promise<number> {
  const { epoch } = await db
    .selectFrom('job_checkpoint')
    .select((eb) => eb.fn.max('epoch').as('epoch'))
    .where('job_id', '=', jobId)
    .executeTakeFirstOrThrow()
  return epoch ?? -1
}

/**
 * Returns the checkpoint to resume from: the job's own newest one, otherwise the newest one from a failed or cancelled
 * run of the same account and configuration.
 */
export async function findResumePoint(
  db: Kysely<Database>,
  job: Pick<JobRow, 'id' | 'account_id' | 'config_digest'>,
): Promise<JobCheckpointRow | undefined> {
  const checkpoints = db.selectFrom('job_checkpoint').selectAll('job_checkpoint')
  const latest = await checkpoints
    .where('job_id', '=', job.id)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
  if (latest) return latest
  return checkpoints
    .innerJoin('training_run', 'training_run.id', 'job_checkpoint.job_id')
    .where('training_run.account_id', '=', job.account_id)
    .where('training_run.config_digest', '=', job.config_digest)
    .where('training_run.status', 'in', ['failed', 'cancelled'])
    .where('training_run.deleted_at', 'is', null)
    .orderBy('job_checkpoint.id', 'desc')
    .limit(1)
    .executeTakeFirst()
}
