import { sql, type Kysely, type Transaction } from 'kysely'
import { storable } from '../../../domain/storable-text.ts'
import { lockAccount } from '../../account-lock.ts'
import type { Database } from '../../tables.ts'
import type { DatasetRow } from '../../tables/datasets.ts'

/** An upload that is being read, with the format that its dataset declares. */
export interface OpenIngest {
  uploadId: string
  datasetId: string
  accountId: string
  storageFormat: DatasetRow['storage_format']
  /** The key under which the client has PUT the file. */
  uploadedKey: string
}

/** The result of reading a file. */
export interface IngestResult {
  object_key: string
  num_samples: number
  total_size_bytes: number
  decoded_bytes: number
  columns: { name: string; type: string }[]
}

/** Marks an upload as being read, once; `false` if another transaction already has. The dataset must be locked. */
export async function beginIngest(
  trx: Transaction<Database>,
  { id, status }: Pick<DatasetRow, 'id' | 'status'>,
  uploadId: string,
): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('dataset_upload')
    .set({ status: 'ingesting' })
    .where('id', '=', uploadId)
    .where('status', '=', 'initialised')
    .executeTakeFirst()
  if (numUpdatedRows === 0n) return false
  // A ready dataset stays ready until newer data has been read.
  if (status !== 'ready') {
    await trx
      .updateTable('dataset')
      .set({ status: 'pending', error_message: null })
      .where('id', '=', id)
      .execute()
  }
  return true
}

/**
 * Counts an account's files that are being read or waiting to be read, and locks the account so that no other
 * transaction can count or add files.
 */
export async function countUnread(trx: Transaction<Database>, accountId: string): Promise<number> {
  await lockAccount(trx, 'unread', accountId)
  const { count } = await trx
    .selectFrom('dataset_upload')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('account_id', '=', accountId)
    .where('status', '=', 'ingesting')
    .executeTakeFirstOrThrow()
  return count
}

/** Finds an upload that is still to be read; `undefined` once it has been read, or if its dataset is gone. */
export function findOpenIngest(db: Kysely<Database>, uploadId: string): Promise<OpenIngest | undefined> {
  return openIngests(db).where('upload.id', '=', uploadId).executeTakeFirst()
}

/**
 * Makes the result the dataset's content. Returns the key of the content that it replaces, if any; `undefined` when the
 * upload has been closed in the meantime.
 */
export function finishIngest(
  db: Kysely<Database>,
  uploadId: string,
  result: IngestResult,
): Promise<{ replacedKey: string | null } | undefined> {
  return db.transaction().execute(async (trx) => {
    const dataset = await closeUpload(trx, uploadId, 'ready', null)
    if (!dataset || dataset.deleted_at) return undefined
    await trx
      .updateTable('dataset')
      .set({
        ...result,
        decoded_object_key: result.object_key,
        columns: JSON.stringify(result.columns),
        status: 'ready',
        error_message: null,
      })
      .where('id', '=', dataset.id)
      .execute()
    return { replacedKey: dataset.object_key === result.object_key ? null : dataset.object_key }
  })
}

/** Records what an open upload is waiting for. */
export async function noteIngestWaiting(
  db: Kysely<Database>,
  uploadId: string,
  reason: string,
): Promise<void> {
  await db
    .updateTable('dataset_upload')
    .set({ error_message: reason })
    .where('id', '=', uploadId)
    .where('status', '=', 'ingesting')
    .execute()
}

/** Closes an upload that cannot be used, with the reason. A dataset without earlier content fails with it. */
export function failIngest(db: Kysely<Database>, uploadId: string, reason: string): Promise<boolean> {
  // The message may quote the file.
  const message = storable(reason)
  return db.transaction().execute(async (trx) => {
    const dataset = await closeUpload(trx, uploadId, 'failed', message)
    if (!dataset) return false
    await trx
      .updateTable('dataset')
      .set({ status: 'failed', error_message: message })
      .where('id', '=', dataset.id)
      .where('status', '=', 'pending')
      .execute()
    return true
  })
}

async function closeUpload(
  trx: Transaction<Database>,
  uploadId: string,
  status: 'ready' | 'failed',
  reason: string | null,
): Promise<Pick<DatasetRow, 'id' | 'object_key' | 'deleted_at'> | undefined> {
  const upload = await trx
    .updateTable('dataset_upload')
    .set({ status, error_message: reason })
    .where('id', '=', uploadId)
    .where('status', '=', 'ingesting')
    .returning('dataset_id')
    .executeTakeFirst()
  if (!upload) return undefined
  return trx
    .selectFrom('dataset')
    .select(['id', 'object_key', 'deleted_at'])
    .where('id', '=', upload.dataset_id)
    .forUpdate()
    .executeTakeFirstOrThrow()
}

/** Lists uploads created more than `olderThanS` seconds ago that are still being read and have no start enqueued. */
export function stalledIngests(
  db: Kysely<Database>,
  { olderThanS, limit }: { olderThanS: number; limit: number },
): Promise<OpenIngest[]> {
  return openIngests(db)
    .where('upload.created_at', '<', sql<Date>`now() - make_interval(secs => ${olderThanS})`)
    .where((eb) => {
      const id = sql<string>`'dataset/' || dataset.id || '/' || upload.id`
      const start = eb.selectFrom('workflow_start').select('workflow_id').where('workflow_id', '=', id)
      return eb.not(eb.exists(start))
    })
    .orderBy('upload.id')
    .limit(limit)
    .execute()
}

/** Returns which of these keys an open upload still needs. */
export async function openUploadKeys(db: Kysely<Database>, keys: readonly string[]): Promise<Set<string>> {
  if (keys.length === 0) return new Set()
  const rows = await db
    .selectFrom('dataset_upload')
    .select('object_key')
    .where('object_key', 'in', keys)
    .where('status', 'in', ['initialised', 'ingesting'])
    .execute()
  return new Set(rows.map((row) => row.object_key))
}

const openIngests = (db: Kysely<Database>) =>
  db
    .selectFrom('dataset_upload as upload')
    .innerJoin('dataset', 'dataset.id', 'upload.dataset_id')
    .select([
      'upload.id as uploadId',
      'upload.dataset_id as datasetId',
      'upload.account_id as accountId',
      'upload.object_key as uploadedKey',
      'dataset.storage_format as storageFormat',
    ])
    .where('upload.status', '=', 'ingesting')
    .where('dataset.deleted_at', 'is', null)
