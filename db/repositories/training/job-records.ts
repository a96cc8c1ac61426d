import { type Kysely, sql } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import { storable } from '../../../domain/storable-text.ts'
import type { EpochLoss, JobEventType } from '../../../schemas/training-run.ts'
import type { Database } from '../../tables.ts'
import type { JobEventRow } from '../../tables/training.ts'

export interface JobEvent {
  jobId: string
  type: JobEventType
  /** Identifies an event that can occur several times: `2` in `resumed/2`. */
  occurrence?: string | number
  detail?: string
}

/** Stores events of a job. Safe to repeat, because each occurrence is stored once. */
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

/** A cap on the list; no sensible job has more events. */
const MAX_EVENTS = 5_000

/** Lists the events of a job in order; the newest ones, if there are more than `MAX_EVENTS`. */
export async function listJobEvents(db: Kysely<Database>, jobId: string): Promise<JobEventRow[]> {
  const newest = await db
    .selectFrom('job_event')
    .selectAll()
    .where('job_id', '=', jobId)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(MAX_EVENTS)
    .execute()
  return newest.toReversed()
}

/** The platform's first lines come before the lines of every attempt. */
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

/** The position of a line in a job's log. */
export interface LogCursor {
  attempt: number
  seq: number
}

export type LogLine = LogCursor & { message: string; created_at: Date; place: number }

/**
 * Returns the newest lines of a job's log, oldest first: at most `limit`, and as many as fit into
 * `maxBytes`, but at least one.
 */
export async function listJobLogs(
  db: Kysely<Database>,
  jobId: string,
  {
    limit,
    before,
    maxBytes = MAX_PAGE_BYTES,
  }: { limit: number; before?: LogCursor | undefined; maxBytes?: number },
): Promise<LogLine[]> {
  const older = before
    ? sql<boolean>`(attempt, seq) < (${before.attempt}::integer, ${before.seq}::integer)`
    : sql<boolean>`true`
  const { rows } = await sql<LogLine>`
    select attempt, seq, message, created_at, place from (
      select attempt, seq, message, created_at, place, row_number() over newest as nth,
        sum(octet_length(message)) over newest as upto
      from job_log
      where job_id = ${jobId} and ${older}
      window newest as (order by attempt desc, seq desc)
      order by attempt desc, seq desc
      limit ${limit}
    ) line
    where upto <= ${maxBytes}::bigint or nth = 1
    order by attempt, seq
  `.execute(db)
  return rows
}

const MAX_PAGE_BYTES = 1024 * 1024

/** Returns whether a job's log has lines before this one. */
export async function hasJobLogs(
  db: Kysely<Database>,
  jobId: string,
  { attempt, seq }: LogCursor,
): Promise<boolean> {
  const { rows } = await sql`
    select 1 from job_log where job_id = ${jobId} and (attempt, seq) < (${attempt}::integer, ${seq}::integer) limit 1
  `.execute(db)
  return rows.length > 0
}

/** Returns the losses of a job so far, by epoch. */
export async function listJobEpochs(db: Kysely<Database>, jobId: string): Promise<EpochLoss[]> {
  const rows = await db
    .selectFrom('job_epoch')
    .select(['epoch', 'train_loss', 'val_loss', 'eval_loss', 'eval_perplexity'])
    .where('job_id', '=', jobId)
    .orderBy('epoch')
    .execute()
  return rows.map(({ eval_loss, eval_perplexity, ...losses }) => ({
    ...losses,
    ...(eval_loss !== null && { eval_loss }),
    ...(eval_perplexity !== null && { eval_perplexity }),
  }))
}

/** The platform's lines during an attempt come after its node's lines, whose numbers stay below this. */
export const AFTER_NODE_SEQ = 1_000_000_000

/** Adds a platform line to the log of an attempt; the caller holds the lock on the job's row. */
export async function insertJobLine(
  db: Kysely<Database>,
  { jobId, attempt }: { jobId: string; attempt: number },
  message: string,
  now: Date,
): Promise<void> {
  const last = db
    .selectFrom('job_log')
    .select(sql<number>`greatest(max(seq) + 1, ${AFTER_NODE_SEQ}::int)`.as('seq'))
    .where('job_id', '=', jobId)
    .where('attempt', '=', attempt)
  await db
    .insertInto('job_log')
    .values({ job_id: jobId, attempt, seq: last, message: storable(message), created_at: now })
    .execute()
}
