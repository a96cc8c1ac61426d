import type { FullDataset, ListedDataset } from '../../../../db/repositories/datasets/datasets.ts'
import { ApiError } from '../../../../domain/errors.ts'
import type { Dataset } from '../../../../schemas/dataset.ts'

/** Datasets whose file is being read, by id, with what the reader is waiting for, if anything. */
type ReadsInProgress = ReadonlyMap<string, string | null>

/** The message for a dataset whose columns were stored by an earlier version and are too large for this one. */
const LARGE_COLUMNS =
  'Its column names exceed the limit of 1 MB in total, so they are not shown or checked; the dataset can still be used for training. To see them, upload its file again with shorter names.'

/** Returns a dataset in full. */
export function presentDataset(row: FullDataset, reading: ReadsInProgress = new Map()): Dataset {
  const listed = presentListed(row, reading)
  const hasLargeColumns = row.status === 'ready' && row.columns === null
  return {
    ...listed,
    columns: row.columns,
    message: listed.message ?? (hasLargeColumns ? LARGE_COLUMNS : null),
  }
}

/** Returns a dataset as a list shows it; missing counts are shown as 0. */
export const presentListed = (row: ListedDataset, reading: ReadsInProgress): Dataset => ({
  dataset_id: row.id,
  account_id: row.account_id,
  dataset_name: row.dataset_name,
  description: row.description,
  status: row.status,
  storage_format: row.storage_format,
  num_samples: row.num_samples ?? 0,
  total_size_bytes: row.total_size_bytes ?? 0,
  visibility: row.visibility,
  is_reading: reading.has(row.id),
  message: reading.get(row.id) ?? null,
  error_message: row.error_message,
  created_at: row.created_at.toISOString(),
})

export const noDataset = (): ApiError => new ApiError('not_found', 'there is no dataset with this id')

/** Returns the error for a file that is not in its declared format; the dataset shows the same message. */
export const refusedFile = (datasetId: string, reason: string): ApiError =>
  new ApiError('validation_failed', `the file was refused: ${reason}`, {
    details: {
      dataset_id: datasetId,
      issues: [{ loc: ['body', 'file'], msg: reason, type: 'dataset_refused' }],
    },
  })
