import { type Kysely, type RawBuilder, sql } from 'kysely'
import type {
  JobEventType,
  RunProgress,
  StreamedType,
  TrainingRunStatus,
} from '../../../schemas/training-run.ts'
import type { Database } from '../../tables.ts'

/** Notified with the id of a run once per statement that tells something of it. */
export const RUN_CHANNEL = 'hearth_run'

interface Told {
  log: { message: string }
  metric: {
    epoch: number
    train_loss: number | null
    val_loss: number | null
    eval_loss: number | null
    eval_perplexity: number | null
  }
  event: { event_type: JobEventType; detail: string | null }
  status: {
    status: TrainingRunStatus
    attempt: number
    paused: boolean
    reason: string | null
    since: string | null
  }
  progress: RunProgress
}

/** A line of the log with its place. */
export interface FeedLine {
  place: number
  at: Date
  data: Told['log']
}

/** Something told of a run, with its place in the order of all that is. Only what is stored as an entry has a time. */
export type FeedEntry = {
  [T in StreamedType]: { type: T; place: number; at: Date | null; data: Told[T] }
}[StreamedType]

export interface FeedQuery {
  after: number
  types: readonly StreamedType[]
  limit: number
  maxBytes: number
}

/**
 * Returns what was told of a run behind a place, in order: at most `limit` entries, and as many as fit into `maxBytes`, but
 * at least one. One statement reads all of it, because a later one would see entries that belong before those of the first.
 */
export async function listFeed(
  db: Kysely<Database>,
  jobId: string,
  { after, types, limit, maxBytes }: FeedQuery,
): Promise<FeedEntry[]> {
  if (types.length === 0) return []
  const page = sql`and place > ${after}::bigint order by place limit ${limit}`
  const parts: Record<StreamedType, RawBuilder<unknown>> = {
    log: sql`(select place, 'log' as type, created_at as at, jsonb_build_object('message', message) as data
      from job_log where job_id = ${jobId} ${page})`,
    metric: sql`(select place, 'metric' as type, created_at as at,
      jsonb_build_object('epoch', epoch, 'train_loss', train_loss, 'val_loss', val_loss,
        'eval_loss', eval_loss, 'eval_perplexity', eval_perplexity) as data
      from job_epoch where job_id = ${jobId} ${page})`,
    event: sql`(select place, 'event' as type, created_at as at,
      jsonb_build_object('event_type', event_type, 'detail', detail) as data
      from job_event where job_id = ${jobId} ${page})`,
    status: sql`(select place, 'status' as type, null::timestamptz as at,
      jsonb_build_object('status', status, 'attempt', attempt,
        'paused', paused_at is not null, 'reason', waiting_reason, 'since', waiting_since) as data
      from training_run where id = ${jobId} ${page})`,
    progress: sql`(select progress_place as place, 'progress' as type, null::timestamptz as at, progress as data
      from training_run where id = ${jobId} and progress is not null and progress_place > ${after}::bigint)`,
  }
  const told = sql.join(
    types.map((type) => parts[type]),
    sql` union all `,
  )
  const { rows } = await sql<FeedEntry>`
    select place, type, at, data from (
      select place, type, at, data, row_number() over (order by place) as nth,
        sum(octet_length(data::text)) over (order by place) as upto
      from (select * from (${told}) any_type order by place limit ${limit}) told
    ) sized
    where upto <= ${maxBytes}::bigint or nth = 1
    order by place
  `.execute(db)
  return rows
}

/** Returns the lines of the log behind a place, in the order in which they came; bounded as `listFeed` is. */
export async function listLines(
  db: Kysely<Database>,
  jobId: string,
  bounds: Omit<FeedQuery, 'types'>,
): Promise<FeedLine[]> {
  const entries = await listFeed(db, jobId, { ...bounds, types: ['log'] })
  return entries as FeedLine[]
}
