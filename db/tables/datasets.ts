import type { Insertable, Selectable } from 'kysely'
import type { DatasetStatus, DatasetVisibility, StorageFormat } from '../../schemas/dataset.ts'
import type { CreatedAt, NullableJson, Optional } from './columns.ts'

export interface DatasetTable {
  id: string
  account_id: string
  dataset_name: string
  description: string
  status: DatasetStatus
  storage_format: StorageFormat
  visibility: DatasetVisibility
  num_samples: Optional<number>
  total_size_bytes: Optional<number>
  /** The memory that its rows need when decoded, with every value expanded. */
  decoded_bytes: Optional<number>
  /** The object that `decoded_bytes` was computed for; the value does not apply to any other object. */
  decoded_object_key: Optional<string>
  columns: NullableJson<{ name: string; type: string }[]>
  object_key: Optional<string>
  error_message: Optional<string>
  created_at: CreatedAt
  deleted_at: Optional<Date>
}
export type DatasetRow = Selectable<DatasetTable>
export type NewDataset = Insertable<DatasetTable>

export interface DatasetUploadTable {
  id: string
  dataset_id: string
  account_id: string
  filename: string
  content_type: string
  object_key: string
  status: 'initialised' | 'ingesting' | 'ready' | 'failed'
  error_message: Optional<string>
  expires_at: Date
  created_at: CreatedAt
  /** Declared before the PUT, and measured once `stored_at` is set; null where it is unknown. */
  size_bytes: Optional<number>
  /** The time at which a gateway stored the file; null for files that are PUT to S3. */
  stored_at: Optional<Date>
}
export type DatasetUploadRow = Selectable<DatasetUploadTable>

export interface DatasetTables {
  dataset: DatasetTable
  dataset_upload: DatasetUploadTable
}
