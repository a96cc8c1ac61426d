import { type Kysely, type RawBuilder, sql } from 'kysely'
import type {
  JobEventType,
  RunProgress,
  StreamedType,
  TrainingRunStatus,
} from '../../../schemas/training-run.ts'
import type { Database } from '../../tables.ts'

/** The channel that receives a run's id, once per statement that adds to its feed. */
export const RUN_CHANNEL = 'hearth_run'

interface FeedData {
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

/** A log line with its position in the feed. */
export interface FeedLogEntry {
  place: number
  at: Date
  data: FeedData['log']
}

/** An entry in a run's feed, with its position. Only entries with their own row have a time. */
export type FeedEntry = {
  [T in StreamedType]: { type: T; place: number; at: Date | null; data: FeedData[T] }
}[StreamedType]

export interface FeedQuery {
  after: number
  types: readonly StreamedType[]
  limit: number
  maxBytes: number
}

/**
 * Returns the entries of a run's feed after a position, in order: at most `limit`, and as many as fit into `maxBytes`,
 * but at least one. A single statement reads all of them, because a second one could see entries that belong before
 * those of the first.
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
  const union = sql.join(
    types.map((type) => parts[type]),
    sql` union all `,
  )
  const { rows } = await sql<FeedEntry>`
    select place, type, at, data from (
      select place, type, at, data, row_number() over (order by place) as nth,
        sum(octet_length(data::text)) over (order by place) as upto
      from (select * from (${union}) any_type order by place limit ${limit}) page
    ) sized
    where upto <= ${maxBytes}::bigint or nth = 1
    order by place
  `.execute(db)
  return rows
}

/** Returns the log lines after a position, in order of arrival, with the same bounds as `listFeed`. */
export async function listLines(
  db: Kysely<Database>,
  jobId: string,
  bounds: Omit<FeedQuery, 'types'>,
): Promise<FeedLogEntry[]> {
  const entries = await listFeed(db, jobId, { ...bounds, types: ['log'] })
  return entries as FeedLogEntry[]
}
