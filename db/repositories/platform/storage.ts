import { type Kysely, sql, type Transaction } from 'kysely'
import { newId } from '../../../domain/ids.ts'
import { lockAccount } from '../../account-lock.ts'
import type { Database } from '../../tables.ts'

/** A hold that no gateway has renewed for this long belongs to a gateway that was killed. */
const HOLD_TTL_S = 120
/** The maximum number of results that one upload folds; results of further tasks are still counted. */
const MAX_FOLDED = 5_000

/** The bytes of an account in the object store. */
export interface StorageUse {
  /** Null means no limit. */
  limitBytes: number | null
  storedBytes: number
  /** Transfers in progress, uncommitted uploads, and files that are being read. */
  underWayBytes: number
}

/**
 * Adds up an account's bytes in one statement, so that a file that moves from one kind to another counts once. Files of
 * trained models count as the run's artifacts. Payloads between the stages of open cohorts don't count: they are gone
 * when the cohort ends. `defaultBytes` is the limit for accounts without their own; 0 means no limit.
 */
export async function storageUse(
  db: Kysely<Database>,
  accountId: string,
  defaultBytes: number,
): Promise<StorageUse> {
  const { rows } = await sql<{ limit_bytes: number; stored: number; under_way: number }>`
    select coalesce(account.storage_quota_bytes, ${defaultBytes}::bigint) as limit_bytes,
      ((select coalesce(sum(total_size_bytes), 0) from dataset
        where account_id = account.id and deleted_at is null)
      + (select coalesce(sum(size_bytes), 0) from training_run r join artifact on job_id = r.id
        where r.account_id = account.id and r.deleted_at is null)
      + (select coalesce(sum(size_bytes), 0) from training_run r join job_checkpoint on job_id = r.id
        where r.account_id = account.id and r.deleted_at is null)
      + (select coalesce(sum(size_bytes), 0) from model_version v join version_file on version_id = v.id
        where v.account_id = account.id and object_key like 'imports/%')
      + (select coalesce(sum(size_bytes), 0) from uploaded_input where account_id = account.id)
      + (select coalesce(sum(bytes), 0) from result_bytes where account_id = account.id)
      + (select coalesce(sum(bytes), 0) from result_bytes_delta where account_id = account.id))::bigint as stored,
      ((select coalesce(sum(bytes), 0) from storage_hold
        where account_id = account.id and expires_at > now())
      + (select coalesce(sum(u.size_bytes), 0) from dataset_upload u
        where u.account_id = account.id and ${isCounted}))::bigint as under_way
    from account where id = ${accountId}`.execute(db)
  const [row] = rows
  if (!row) return { limitBytes: null, storedBytes: 0, underWayBytes: 0 }
  return { limitBytes: row.limit_bytes || null, storedBytes: row.stored, underWayBytes: row.under_way }
}

/**
 * The condition under which the size of an upload `u` counts. A declared size counts until its URL expires; while bytes
 * are being PUT to the URL, their hold counts instead. Stored files count until they are committed or removed.
 */
const isCounted = sql`u.status in ('initialised', 'ingesting') and (
  u.status = 'ingesting' or u.stored_at is not null
  or (u.expires_at > now() and not exists (
    select from storage_hold h where h.account_id = u.account_id and h.upload_id = u.id and h.expires_at > now())))`

/**
 * Locks an account's storage until the transaction ends, so that only one of two uploads gets the last bytes, and
 * returns its usage.
 */
export async function lockStorage(
  trx: Transaction<Database>,
  accountId: string,
  defaultBytes: number,
): Promise<StorageUse> {
  // Lock in a separate statement, so that the next one sees the rows written by the lock's previous holder.
  await lockAccount(trx, 'storage', accountId)
  await foldResults(trx, accountId)
  return storageUse(trx, accountId, defaultBytes)
}

/** Adds the bytes of results that tasks have recorded to the account's total. */
async function foldResults(trx: Transaction<Database>, accountId: string): Promise<void> {
  await sql`
    with folded as (
      delete from result_bytes_delta where ctid = any(array(
        select ctid from result_bytes_delta where account_id = ${accountId} limit ${MAX_FOLDED}))
      returning bytes
    )
    insert into result_bytes (account_id, bytes)
    select ${accountId}, sum(bytes) from folded having count(*) > 0
    on conflict (account_id) do update set bytes = result_bytes.bytes + excluded.bytes`.execute(trx)
}

/** Returns how much of an upload's declared size counts now and may be used by a PUT or a commit; 0 once stored. */
export async function reservedBytes(db: Kysely<Database>, uploadId: string): Promise<number> {
  const { rows } = await sql<{ size_bytes: number | null }>`
    select u.size_bytes from dataset_upload u where u.id = ${uploadId} and u.stored_at is null and ${isCounted}`.execute(
    db,
  )
  return rows[0]?.size_bytes ?? 0
}

/** Holds bytes for a transfer, and removes holds of the account that have expired; returns the hold's id. */
export async function insertHold(
  trx: Transaction<Database>,
  { accountId, uploadId, bytes }: { accountId: string; uploadId: string | undefined; bytes: number },
): Promise<string> {
  const id = newId()
  await sql`delete from storage_hold where account_id = ${accountId} and expires_at < now()`.execute(trx)
  await sql`
    insert into storage_hold (id, account_id, upload_id, bytes, expires_at)
    values (${id}, ${accountId}, ${uploadId ?? null}, ${bytes}, now() + make_interval(secs => ${HOLD_TTL_S}))`.execute(
    trx,
  )
  return id
}

/** Extends a hold while its transfer lasts. */
export async function renewHold(db: Kysely<Database>, id: string): Promise<void> {
  await sql`
    update storage_hold set expires_at = now() + make_interval(secs => ${HOLD_TTL_S}) where id = ${id}`.execute(
    db,
  )
}

/** Removes a hold, in the transaction that writes the row of the stored file, or after a transfer that failed. */
export async function deleteHold(db: Kysely<Database>, id: string): Promise<void> {
  await db.deleteFrom('storage_hold').where('id', '=', id).execute()
}
