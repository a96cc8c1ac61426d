import Type, { type Static } from 'typebox'
import { Nullable, SortedPageQuery, Timestamp, Uuid, Vocabulary } from './common.ts'
import { Formed, Name } from './forms.ts'

export const DatasetStatus = Vocabulary('pending', 'ready', 'failed')
export type DatasetStatus = Static<typeof DatasetStatus>

export const StorageFormat = Vocabulary('csv', 'jsonl', 'parquet', 'hf_dataset')
export type StorageFormat = Static<typeof StorageFormat>

export const DatasetVisibility = Vocabulary('private', 'public')
export type DatasetVisibility = Static<typeof DatasetVisibility>

const Description = Type.String({ maxLength: 10_000 })
const Count = Type.Integer({ minimum: 0 })

/**
 * One column. Its type is common to all formats: integer, number, boolean, string, date, timestamp, binary, list,
 * object or any.
 */
export const DatasetColumn = Type.Object({ name: Type.String(), type: Type.String() })

/**
 * Counts are 0 and `columns` is null until the platform has read the file. List responses omit `columns`, because a
 * dataset may have thousands.
 */
export const Dataset = Type.Object(
  {
    dataset_id: Uuid,
    account_id: Uuid,
    dataset_name: Type.String(),
    description: Type.String(),
    status: DatasetStatus,
    storage_format: StorageFormat,
    num_samples: Count,
    total_size_bytes: Count,
    visibility: DatasetVisibility,
    columns: Type.Optional(Nullable(Type.Array(DatasetColumn))),
    is_reading: Type.Optional(
      Type.Boolean({
        description:
          'Whether the file has arrived and is being read; while this is false, a `pending` dataset is still waiting for its file',
      }),
    ),
    message: Type.Optional(
      Nullable(
        Type.String({
          description:
            'Why the file has not been read yet, for example a lack of disk space; or why `columns` is null although it has been read',
        }),
      ),
    ),
    error_message: Nullable(Type.String()),
    created_at: Timestamp,
  },
  { $id: 'Dataset' },
)
export type Dataset = Static<typeof Dataset>

export const DatasetList = Type.Object(
  { datasets: Type.Array(Dataset), next_cursor: Nullable(Type.String()) },
  { $id: 'DatasetList' },
)

export const DatasetQuery = Type.Object({
  ...SortedPageQuery.properties,
  status: Type.Optional(DatasetStatus),
})
export const DatasetParams = Type.Object({ dataset_id: Uuid })
export const UploadParams = Type.Object({ dataset_id: Uuid, upload_id: Uuid })

export const CreateDataset = Type.Object(
  {
    dataset_name: Name,
    description: Type.Optional(Nullable(Description)),
    storage_format: StorageFormat,
    visibility: Type.Optional(DatasetVisibility),
  },
  { $id: 'CreateDataset', additionalProperties: false },
)

/** The text parts of the upload form, which also has a `file` part. */
export const UploadFields = Type.Object(
  {
    name: Name,
    storage_format: StorageFormat,
    description: Type.Optional(Description),
    visibility: Type.Optional(DatasetVisibility),
  },
  { additionalProperties: false },
)
export type UploadFields = Static<typeof UploadFields>

export const UploadForm = Type.Object(
  { ...UploadFields.properties, file: Type.Unsafe<string>({ type: 'string', format: 'binary' }) },
  { $id: 'UploadDataset', additionalProperties: false },
)

export const InitUpload = Type.Object(
  {
    filename: Type.String({ minLength: 1, maxLength: 255 }),
    content_type: Formed(
      '^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+( *; *[A-Za-z0-9_-]+=[A-Za-z0-9"_.+-]+)*$',
      'must be a media type such as text/csv',
      { maxLength: 200 },
    ),
    size_bytes: Type.Optional(
      Nullable(
        Type.Integer({
          minimum: 0,
          maximum: Number.MAX_SAFE_INTEGER,
          description:
            'The size of the file. The storage quota is checked before the PUT, which must have exactly this Content-Length',
        }),
      ),
    ),
  },
  { $id: 'InitUpload', additionalProperties: false },
)

export const UploadSession = Type.Object(
  { upload_id: Uuid, signed_url: Type.String(), expires_at: Timestamp },
  { $id: 'UploadSession' },
)

/** `message` is present while the file is still being read. */
export const CommittedUpload = Type.Object(
  {
    dataset_id: Uuid,
    status: DatasetStatus,
    num_samples: Count,
    total_size_bytes: Count,
    message: Type.Optional(Type.String()),
  },
  { $id: 'CommittedUpload' },
)

export const UploadedDataset = Type.Object(
  {
    dataset_id: Uuid,
    dataset_name: Type.String(),
    status: DatasetStatus,
    storage_format: StorageFormat,
    num_samples: Count,
    total_size_bytes: Count,
    created_at: Timestamp,
    message: Type.Optional(Type.String()),
  },
  { $id: 'UploadedDataset' },
)

const PreviewValue = Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()])
export type PreviewValue = Static<typeof PreviewValue>

/** Statistics of a column, from the first rows. */
const ColumnSummary = Type.Object(
  {
    name: Type.String(),
    type: Type.String(),
    missing: Count,
    distinct: Count,
    min: Nullable(Type.Number()),
    max: Nullable(Type.Number()),
    mean: Nullable(Type.Number()),
    common: Type.Array(Type.Object({ value: PreviewValue, count: Count }), {
      description: 'The most frequent values',
    }),
  },
  { $id: 'ColumnSummary' },
)

/** The stored summary of a dataset's first rows. */
export const DatasetPreview = Type.Object({
  sampled_rows: Count,
  columns: Type.Array(ColumnSummary),
  rows: Type.Array(Type.Array(PreviewValue)),
})
export type DatasetPreview = Static<typeof DatasetPreview>

export const DatasetRowsQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 50, default: 20 })),
})

/** The first rows of a dataset: at most 50 rows and 200 columns, with text truncated to 500 characters. */
export const DatasetRows = Type.Object(
  {
    dataset_id: Uuid,
    num_samples: Count,
    columns: Type.Array(DatasetColumn, { description: 'In the order of the values in each row' }),
    rows: Type.Array(Type.Array(PreviewValue)),
  },
  { $id: 'DatasetRows' },
)

/** Statistics of a dataset, computed from its first rows. */
export const DatasetSummary = Type.Object(
  {
    dataset_id: Uuid,
    num_samples: Count,
    sampled_rows: Type.Integer({
      minimum: 0,
      description:
        'The number of rows, from the start of the dataset, that the statistics were computed from',
    }),
    columns: Type.Array(ColumnSummary),
  },
  { $id: 'DatasetSummary' },
)
