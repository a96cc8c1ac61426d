import type { Kysely } from 'kysely'
import { newId } from '../../domain/ids.ts'
import { storable } from '../../domain/storable-text.ts'
import type { EpochLoss, JobEventType } from '../../schemas/training-run.ts'
import type { Database } from '../tables.ts'
import type { JobEventRow } from '../tables/training.ts'

export interface JobEvent {
  jobId: string
  type: JobEventType
  /** Which occurrence this is, where there can be several: `2` of `resumed/2`. */
  occurrence?: string | number
  detail?: string
}

/** Tells what happened to a job. Safe to repeat: an occurrence stands once. */
export async function insertJobEvents(
  db: Kysely<Database>,
  events: readonly JobEvent[],
  now: Date,
): Promise<void> {
  if (events.length === 0) return
  await db
    .insertInto('job_event')
    .values(
      events.map(({ jobId, type, occurrence, detail }) => ({
        id: newId(),
        job_id: jobId,
        event_type: type,
        dedupe: occurrence === undefined ? type : `${type}/${occurrence}`,
        detail: detail ?? null,
        created_at: now,
      })),
    )
    .onConflict((oc) => oc.columns(['job_id', 'dedupe']).doNothing())
    .execute()
}

/** Everything that happened to a job, in order. */
export function listJobEvents(db: Kysely<Database>, jobId: string): Promise<JobEventRow[]> {
  return db
    .selectFrom('job_event')
    .selectAll()
    .where('job_id', '=', jobId)
    .orderBy('created_at')
    .orderBy('id')
    .execute()
}

/** Lines that the platform itself writes come before those of any attempt. */
const PLATFORM_ATTEMPT = 0

/** Writes the first lines of a job's log. */
export async function insertJobNotes(
  db: Kysely<Database>,
  jobId: string,
  messages: readonly string[],
  now: Date,
): Promise<void> {
  if (messages.length === 0) return
  await db
    .insertInto('job_log')
    .values(
      messages.map((message, seq) => ({
        job_id: jobId,
        attempt: PLATFORM_ATTEMPT,
        seq,
        message: storable(message),
        created_at: now,
      })),
    )
    .onConflict((oc) => oc.doNothing())
    .execute()
}

/** The newest lines of a job's log, oldest first. */
export async function listJobLogs(
  db: Kysely<Database>,
  jobId: string,
  limit: number,
): Promise<{ message: string; created_at: Date }[]> {
  const newest = await db
    .selectFrom('job_log')
    .select(['message', 'created_at'])
    .where('job_id', '=', jobId)
    .orderBy('attempt', 'desc')
    .orderBy('seq', 'desc')
    .limit(limit)
    .execute()
  return newest.toReversed()
}

/** The losses of a job so far, by epoch. */
export function listJobEpochs(db: Kysely<Database>, jobId: string): Promise<EpochLoss[]> {
  return db
    .selectFrom('job_epoch')
    .select(['epoch', 'train_loss', 'val_loss'])
    .where('job_id', '=', jobId)
    .orderBy('epoch')
    .execute()
}
