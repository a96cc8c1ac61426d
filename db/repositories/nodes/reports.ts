import { type Kysely, sql } from 'kysely'
import { storableJson } from '../../../domain/storable-text.ts'
import type { LogEntry, MetricEntry } from '../../../schemas/nodes/link.ts'
import type { Database } from '../../tables.ts'

export interface NodeStateWrite {
  nodeId: string
  /** The snapshot as JSON text. */
  snapshot: string
}

/** Stores the last reports of many nodes in one statement; a report also shows that its node is alive. */
export async function saveNodeStates(
  db: Kysely<Database>,
  gatewayId: string,
  states: readonly NodeStateWrite[],
): Promise<void> {
  const ids = states.map(({ nodeId }) => nodeId)
  const snapshots = states.map(({ snapshot }) => snapshot)
  await sql`
    with given as (
      select * from unnest(${ids}::uuid[], ${snapshots}::text[]) as t(node_id, snapshot)
    ), alive as (
      update node set last_seen_at = now() from given where node.id = given.node_id
    )
    insert into node_state (node_id, gateway_id, snapshot, updated_at)
    select given.node_id, ${gatewayId}::uuid, given.snapshot::jsonb, now()
    from given join node on node.id = given.node_id and node.status <> 'removed'
    order by given.node_id
    on conflict (node_id) do update
      set gateway_id = excluded.gateway_id, snapshot = excluded.snapshot, updated_at = excluded.updated_at
  `.execute(db)
}

/** Deletes the states of nodes whose link to this gateway has closed; states written by another gateway are kept. */
export async function dropNodeStates(
  db: Kysely<Database>,
  gatewayId: string,
  nodeIds: readonly string[],
): Promise<void> {
  await db
    .deleteFrom('node_state')
    .where('node_id', 'in', nodeIds)
    .where('gateway_id', '=', gatewayId)
    .execute()
}

/** The maximum log size of one job, in bytes. A line counts for more than its text, because it needs a row. */
const MAX_LOG_BYTES = 64 * 1024 * 1024
const LINE_BYTES = 128
/** The maximum number of epochs with losses per job; for language models, of reported steps. */
const MAX_EPOCHS = 20_000

/**
 * Stores log lines of jobs that this node runs or ran. Safe to repeat, because a line is stored once per job, attempt
 * and number. Drops lines of jobs that are deleted or never ran on this node. Also drops lines beyond the size limit,
 * and adds one line that says so.
 */
export async function insertJobLogs(
  db: Kysely<Database>,
  nodeId: string,
  entries: readonly LogEntry[],
  { maxBytes = MAX_LOG_BYTES }: { maxBytes?: number } = {},
): Promise<void> {
  const full = `The log of this job has reached ${Math.floor(maxBytes / 1024)} KB: further lines are dropped.`
  await sql`
    with fresh as (
      select distinct on (e.job_id, e.attempt, e.seq)
        e.job_id, e.attempt, e.seq, e.message, e.at, octet_length(e.message) + ${LINE_BYTES}::bigint as bytes
      from jsonb_to_recordset(${storableJson(entries)}::jsonb)
        as e(job_id uuid, attempt integer, seq integer, message text, at timestamptz)
      where exists (${leaseOf(nodeId)})
        and not exists (
          select 1 from job_log l where l.job_id = e.job_id and l.attempt = e.attempt and l.seq = e.seq
        )
    ), sized as (
      select fresh.*, coalesce(size.bytes, 0)
        + sum(fresh.bytes) over (partition by fresh.job_id order by fresh.attempt, fresh.seq) as upto
      from fresh left join job_log_size size using (job_id)
    ), stored as (
      insert into job_log (job_id, attempt, seq, message, created_at)
      select job_id, attempt, seq, case when upto > ${maxBytes}::bigint then ${full} else message end, at
      from sized where upto - bytes <= ${maxBytes}::bigint
      on conflict do nothing
    )
    insert into job_log_size (job_id, bytes)
    select job_id, max(upto) from sized group by job_id
    on conflict (job_id) do update set bytes = greatest(job_log_size.bytes, excluded.bytes)
  `.execute(db)
}

/** Stores losses per epoch, up to a limit. A resumed run reports an epoch again, and the later attempt wins. */
export async function insertJobEpochs(
  db: Kysely<Database>,
  nodeId: string,
  entries: readonly MetricEntry[],
): Promise<void> {
  const jobIds = [...new Set(entries.map(({ job_id }) => job_id))]
  // Count a job's epochs once, not once per entry.
  await sql`
    with full_job as materialized (
      select job_id from job_epoch where job_id = any(${jobIds}::uuid[])
      group by job_id having count(*) >= ${MAX_EPOCHS}
    )
    insert into job_epoch (job_id, epoch, attempt, train_loss, val_loss, eval_loss, eval_perplexity, created_at)
    select distinct on (e.job_id, e.epoch) e.job_id, e.epoch, e.attempt, e.train_loss, e.val_loss,
      e.eval_loss, e.eval_perplexity, e.at
    from jsonb_to_recordset(${storableJson(entries)}::jsonb)
      as e(job_id uuid, epoch integer, attempt integer, train_loss float8, val_loss float8,
        eval_loss float8, eval_perplexity float8, at timestamptz)
    where exists (${leaseOf(nodeId)}) and (
      e.job_id not in (select job_id from full_job)
      or exists (select 1 from job_epoch known where known.job_id = e.job_id and known.epoch = e.epoch)
    )
    order by e.job_id, e.epoch, e.attempt desc, e.at desc
    on conflict (job_id, epoch) do update
      set attempt = excluded.attempt, train_loss = excluded.train_loss, val_loss = excluded.val_loss,
        eval_loss = excluded.eval_loss, eval_perplexity = excluded.eval_perplexity
      where job_epoch.attempt <= excluded.attempt
  `.execute(db)
}

const leaseOf = (nodeId: string) => sql`
  select 1 from lease
  where lease.kind = 'job' and lease.subject_id = e.job_id and lease.attempt = e.attempt
    and lease.node_id = ${nodeId}::uuid`

/** Returns whether any node has reported since a given time. */
export async function hasReportsSince(db: Kysely<Database>, since: Date): Promise<boolean> {
  const row = await db
    .selectFrom('node_state')
    .select('node_id')
    .where('updated_at', '>=', since)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}
