import { type Kysely, sql } from 'kysely'
import { isUuid } from '../../../domain/uuid.ts'
import type { Database } from '../../tables.ts'

/** The number of rows that one step removes, so that a step stays short however many rows have expired. */
export const RETENTION_BATCH = 5_000

/** How long rows of each kind are stored. Signatures and join tokens have their own expiry. */
const BY_AGE = {
  audit_log: { column: 'at', keep: '400 days' },
  key_minute: { column: 'minute', keep: '1 hour' },
  idempotency: { column: 'created_at', keep: '24 hours' },
  node_signature_seen: { column: 'expires_at', keep: '0 hours' },
  node_token: { column: 'expires_at', keep: '24 hours' },
  node_model_grant: { column: 'expires_at', keep: '0 hours' },
  node_dispatch: { column: 'dispatched_at', keep: '24 hours' },
  cohort_plan: { column: 'expires_at', keep: '24 hours' },
  cohort_event: { column: 'created_at', keep: '30 days' },
  event: { column: 'created_at', keep: '30 days' },
  scaling_change: { column: 'created_at', keep: '30 days' },
  model_demand: { column: 'measured_at', keep: '1 hour' },
  node_memory: { column: 'expires_at', keep: '0 hours' },
  node_event: { column: 'created_at', keep: '30 days' },
  webhook_attempt: { column: 'started_at', keep: '14 days' },
  webhook_delivery: { column: 'created_at', keep: '30 days' },
  // A redelivery may pin an expired secret for 48 hours.
  webhook_secret: { column: 'expires_at', keep: '7 days' },
} as const
/**
 * Conditions under which an expired row stays: for example, an event must still be delivered,
 * which takes at most 48 hours.
 */
const KEPT = {
  // A dispatch allows claims until its task or job has ended.
  node_dispatch: sql`
    and not exists (select 1 from task where task.id = subject_id and task.status not in ('succeeded', 'failed'))
    and not exists (select 1 from training_run r where r.id = subject_id and r.status in ('pending', 'running'))`,
  event: sql`and not exists (
    select 1 from webhook_delivery d where d.event_id = event.id and d.status in ('pending', 'delivering', 'retrying') and d.deadline_at > now())
    and not exists (select 1 from webhook_outbox o where o.event_id = event.id)`,
  webhook_delivery: sql`and (status not in ('pending', 'delivering', 'retrying') or deadline_at < now())`,
} satisfies Partial<Record<keyof typeof BY_AGE, unknown>>
/** A table whose rows are removed by age. */
export type AgedTable = keyof typeof BY_AGE
export const AGED_TABLES = Object.keys(BY_AGE) as AgedTable[]

/** Removes one batch of rows that have expired by the database's clock, not the worker's; returns the row count. */
export async function removeAged(db: Kysely<Database>, table: AgedTable): Promise<number> {
  const { column, keep } = BY_AGE[table]
  const unless = table in KEPT ? KEPT[table as keyof typeof KEPT] : sql``
  const { numAffectedRows } = await sql`
    delete from ${sql.table(table)} where ctid = any(array(
      select ctid from ${sql.table(table)}
      where ${sql.ref(column)} < now() - ${keep}::interval ${unless}
      limit ${RETENTION_BATCH}
      for update skip locked
    ))`.execute(db)
  return Number(numAffectedRows ?? 0)
}

/** Returns which of these cohorts or structured runs have not ended. */
export async function openAmong(
  db: Kysely<Database>,
  table: 'cohort' | 'structured_run',
  ids: readonly string[],
): Promise<Set<string>> {
  const known = ids.filter(isUuid)
  if (known.length === 0) return new Set()
  const { rows } = await sql<{ id: string }>`
    select id from ${sql.table(table)} where id = any(${known}::uuid[])
      and status not in ('succeeded', 'registered', 'rejected', 'failed', 'cancelled')`.execute(db)
  return new Set(rows.map(({ id }) => id))
}

/** A stored file whose row has expired. */
export interface ExpiredFile {
  id: string
  object_key: string
}

/**
 * Marks and returns uploads that were not committed within 24 hours, so that no commit can begin while the file is
 * being removed. Marked rows are returned again until `removeUploads` deletes them.
 */
export async function expiredUploads(db: Kysely<Database>, limit: number): Promise<ExpiredFile[]> {
  const { rows } = await sql<ExpiredFile>`
    update dataset_upload set status = 'failed', error_message = 'not committed within 24 hours'
    where id in (
      select id from dataset_upload
      where status in ('initialised', 'failed') and created_at < now() - interval '24 hours'
      order by created_at limit ${limit}
      for update skip locked
    )
    returning id, object_key`.execute(db)
  return rows
}

export async function removeUploads(db: Kysely<Database>, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return
  await db.deleteFrom('dataset_upload').where('id', 'in', ids).where('status', '=', 'failed').execute()
}

/** Returns inputs whose URL, which is valid for an hour, has expired. */
export function expiredInputs(db: Kysely<Database>, limit: number): Promise<ExpiredFile[]> {
  return db
    .selectFrom('uploaded_input')
    .select(['id', 'object_key'])
    .where('created_at', '<', sql<Date>`now() - interval '1 hour'`)
    .orderBy('created_at')
    .limit(limit)
    .execute()
}

export async function removeInputs(db: Kysely<Database>, ids: readonly string[]): Promise<void> {
  if (ids.length > 0) await db.deleteFrom('uploaded_input').where('id', 'in', ids).execute()
}
