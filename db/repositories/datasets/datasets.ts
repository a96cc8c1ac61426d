import { type Kysely, sql, type Transaction } from 'kysely'
import { type SortedPage, sortedPage } from '../../keyset.ts'
import type { Database } from '../../tables.ts'
import type { DatasetRow, DatasetUploadRow, NewDataset } from '../../tables/datasets.ts'

/** Inserts a dataset; throws if its id already exists. */
export function insertDataset(db: Kysely<Database>, dataset: NewDataset): Promise<FullDataset> {
  return db.insertInto('dataset').values(dataset).returningAll().executeTakeFirstOrThrow()
}

/**
 * A dataset without its columns, of which there may be thousands. Only the dataset's own page and a run's creation parse
 * them.
 */
export type ListedDataset = Omit<DatasetRow, 'columns' | 'decoded_bytes' | 'decoded_object_key'>

/** A dataset with its columns; they are null until its file has been read, and if they exceed `MAX_COLUMNS_BYTES`. */
export type FullDataset = ListedDataset & Pick<DatasetRow, 'columns'>

/**
 * Columns larger than this, in bytes of JSON, are not read. Files that are read today stay below it: 1 MB of names and
 * 10,000 types. Earlier versions stored longer names, which would block the thread that parses them.
 */
export const MAX_COLUMNS_BYTES = 2 * 1024 * 1024

const LISTED = [
  'id',
  'account_id',
  'dataset_name',
  'description',
  'status',
  'storage_format',
  'visibility',
  'num_samples',
  'total_size_bytes',
  'object_key',
  'error_message',
  'created_at',
  'deleted_at',
] as const

/** Lists a page of the datasets of an account. */
export const listDatasets = (...of: Parameters<typeof datasetsQuery>): Promise<ListedDataset[]> =>
  datasetsQuery(...of).execute()

/** Returns the query of a page. */
export function datasetsQuery(
  db: Kysely<Database>,
  accountId: string,
  { status, ...page }: SortedPage & { status: DatasetRow['status'] | undefined },
) {
  const all = db.selectFrom('dataset').select(LISTED).where('deleted_at', 'is', null)
  const query = status === undefined ? all : all.where('status', '=', status)
  return sortedPage(query, { table: 'dataset', accountId, name: 'dataset_name' }, page)
}

/** Returns the size of a dataset, as a file and in memory; 0 if it is unknown for the current file. */
export async function sizeOfDataset(
  db: Kysely<Database>,
  id: string | null,
): Promise<{ fileBytes: number; decodedBytes: number }> {
  const found = await db
    .selectFrom('dataset')
    .select(['total_size_bytes', 'decoded_bytes', 'object_key', 'decoded_object_key'])
    .where('id', '=', id)
    .executeTakeFirst()
  const isOfFile = found !== undefined && found.object_key === found.decoded_object_key
  return {
    fileBytes: found?.total_size_bytes ?? 0,
    decodedBytes: isOfFile ? (found.decoded_bytes ?? 0) : 0,
  }
}

/** Finds a dataset of this account. */
export function findOwnDataset(
  db: Kysely<Database>,
  accountId: string,
  id: string,
): Promise<ListedDataset | undefined> {
  return owned(db, accountId).where('id', '=', id).executeTakeFirst()
}

/** Finds any account's dataset, for operators and their runs. */
export function findDataset(db: Kysely<Database>, id: string): Promise<ListedDataset | undefined> {
  return db
    .selectFrom('dataset')
    .select(LISTED)
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .executeTakeFirst()
}

/** Returns whether a dataset has a column with this name, without fetching its columns. */
export async function hasColumn(db: Kysely<Database>, id: string, name: string): Promise<boolean> {
  const found = await db
    .selectFrom('dataset')
    .select('id')
    .where('id', '=', id)
    .where(sql<boolean>`columns @> ${JSON.stringify([{ name }])}::jsonb`)
    .executeTakeFirst()
  return found !== undefined
}

/** Finds a dataset that this account may read and train on: its own, or a public one that is ready. */
export function findUsableDataset(
  db: Kysely<Database>,
  accountId: string,
  id: string,
): Promise<ListedDataset | undefined> {
  return usable(db, accountId, id).executeTakeFirst()
}

/** Like `findUsableDataset`, but also reads the columns. */
export function findUsableDatasetInFull(
  db: Kysely<Database>,
  accountId: string,
  id: string,
): Promise<FullDataset | undefined> {
  return usable(db, accountId, id).select(boundedColumns).executeTakeFirst()
}

/**
 * Finds the dataset with its columns and locks the row against deletion until the transaction ends. Every user of a
 * dataset takes this lock, so that the dataset cannot be deleted between the read and the insert.
 */
export function shareLockUsableDataset(
  trx: Transaction<Database>,
  accountId: string,
  id: string,
): Promise<FullDataset | undefined> {
  return usable(trx, accountId, id).select(boundedColumns).forKeyShare().executeTakeFirst()
}

/** Locks the dataset exclusively, after every transaction that holds it has ended. */
export function lockOwnDataset(
  trx: Transaction<Database>,
  accountId: string,
  id: string,
): Promise<ListedDataset | undefined> {
  return owned(trx, accountId).where('id', '=', id).forUpdate().executeTakeFirst()
}

/**
 * Marks a locked dataset as deleted, clears the data about its rows, and closes its uploads; its files are removed
 * later.
 */
export async function markDatasetDeleted(trx: Transaction<Database>, id: string, now: Date): Promise<void> {
  const deletion = { deleted_at: now, description: '', columns: null }
  await trx.updateTable('dataset').set(deletion).where('id', '=', id).execute()
  await trx
    .updateTable('dataset_upload')
    .set({ status: 'failed', error_message: 'the dataset was deleted' })
    .where('dataset_id', '=', id)
    .where('status', 'in', ['initialised', 'ingesting'])
    .execute()
}

/** Returns whether a pending or running job uses this dataset. */
export async function isDatasetInUse(trx: Transaction<Database>, id: string): Promise<boolean> {
  const user = await trx
    .selectFrom('training_run')
    .select('id')
    .where('dataset_id', '=', id)
    .where('status', 'in', ['pending', 'running'])
    .limit(1)
    .executeTakeFirst()
  return user !== undefined
}

export async function insertUpload(
  db: Kysely<Database>,
  upload: Omit<DatasetUploadRow, 'created_at' | 'error_message' | 'size_bytes' | 'stored_at'> &
    Partial<Pick<DatasetUploadRow, 'size_bytes' | 'stored_at'>>,
): Promise<void> {
  await db.insertInto('dataset_upload').values(upload).execute()
}

/** Returns whether a file may still be PUT for an upload. */
export async function isUploadOpen(db: Kysely<Database>, uploadId: string): Promise<boolean> {
  const open = await db
    .selectFrom('dataset_upload')
    .select('id')
    .where('id', '=', uploadId)
    .where('status', '=', 'initialised')
    .executeTakeFirst()
  return open !== undefined
}

/** Notes the size of the file that was PUT for an open upload, which stays locked; false when it is closed. */
export async function noteStored(
  trx: Transaction<Database>,
  uploadId: string,
  sizeBytes: number,
): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('dataset_upload')
    .set({ size_bytes: sizeBytes, stored_at: sql<Date>`now()` })
    .where('id', '=', uploadId)
    .where('status', '=', 'initialised')
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Returns the datasets whose file is being read, by id, with the reason if reading has to wait. */
export async function findReading(
  db: Kysely<Database>,
  datasets: readonly Pick<DatasetRow, 'id' | 'status'>[],
): Promise<ReadonlyMap<string, string | null>> {
  const pending = datasets.filter(({ status }) => status === 'pending').map(({ id }) => id)
  if (pending.length === 0) return new Map()
  const rows = await db
    .selectFrom('dataset_upload')
    .select(['dataset_id', 'error_message'])
    .where('dataset_id', 'in', pending)
    .where('status', '=', 'ingesting')
    .execute()
  return new Map(rows.map(({ dataset_id, error_message }) => [dataset_id, error_message]))
}

/** Finds an upload whose dataset belongs to this account and is not deleted. */
export function findUpload(
  db: Kysely<Database>,
  { accountId, datasetId, uploadId }: { accountId: string; datasetId: string; uploadId: string },
): Promise<DatasetUploadRow | undefined> {
  return db
    .selectFrom('dataset_upload')
    .innerJoin('dataset', 'dataset.id', 'dataset_upload.dataset_id')
    .selectAll('dataset_upload')
    .where('dataset_upload.id', '=', uploadId)
    .where('dataset_upload.dataset_id', '=', datasetId)
    .where('dataset.account_id', '=', accountId)
    .where('dataset.deleted_at', 'is', null)
    .executeTakeFirst()
}

const owned = (db: Kysely<Database>, accountId: string) =>
  db.selectFrom('dataset').select(LISTED).where('account_id', '=', accountId).where('deleted_at', 'is', null)

/** The stored size is known without reading the value, but long names compress well, so check the text's size too. */
const boundedColumns = sql<DatasetRow['columns']>`case
  when pg_column_size(columns) > ${MAX_COLUMNS_BYTES} then null
  when octet_length(columns::text) > ${MAX_COLUMNS_BYTES} then null
  else columns end`.as('columns')

const usable = (db: Kysely<Database>, accountId: string, id: string) =>
  db
    .selectFrom('dataset')
    .select(LISTED)
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .where((eb) =>
      eb.or([
        eb('account_id', '=', accountId),
        eb.and([eb('visibility', '=', 'public'), eb('status', '=', 'ready')]),
      ]),
    )

/** Returns where the data of a dataset of any account is stored, deleted or not. */
export function findDatasetFile(
  db: Kysely<Database>,
  id: string,
): Promise<Pick<DatasetRow, 'object_key' | 'storage_format' | 'total_size_bytes'> | undefined> {
  return db
    .selectFrom('dataset')
    .select(['object_key', 'storage_format', 'total_size_bytes'])
    .where('id', '=', id)
    .executeTakeFirst()
}

/** Reads a dataset of this account that is known to exist, even if it has been deleted in the meantime. */
export function readOwnDataset(db: Kysely<Database>, accountId: string, id: string): Promise<ListedDataset> {
  return db
    .selectFrom('dataset')
    .select(LISTED)
    .where('id', '=', id)
    .where('account_id', '=', accountId)
    .executeTakeFirstOrThrow()
}

/** Finds a dataset that has been deleted; its row stays for the runs that name it. */
export function findDeletedDataset(
  db: Kysely<Database>,
  id: string,
): Promise<Pick<DatasetRow, 'id' | 'account_id'> | undefined> {
  return db
    .selectFrom('dataset')
    .select(['id', 'account_id'])
    .where('id', '=', id)
    .where('deleted_at', 'is not', null)
    .executeTakeFirst()
}
