import Type, { type Static } from 'typebox'
import { ArtifactRef } from './artifact-ref.ts'
import { EitherOf, Nullable, SortedPageQuery, Timestamp, Uuid, Vocabulary } from './common.ts'
import { Name } from './forms.ts'

export const TrainingRunStatus = Vocabulary('pending', 'running', 'completed', 'failed', 'cancelled')
export type TrainingRunStatus = Static<typeof TrainingRunStatus>

export const OperatingMode = Vocabulary('eco', 'balanced', 'performance')
export type OperatingMode = Static<typeof OperatingMode>

export const HardwarePreference = Vocabulary('auto', 'cpu_only', 'gpu_only', 'gpu_preferred')
export type HardwarePreference = Static<typeof HardwarePreference>

const JobType = Vocabulary('training', 'merge')

export const JobEventType = Vocabulary(
  'queued',
  'started',
  'checkpoint',
  'resumed',
  'preempted',
  'paused',
  'artifact_uploaded',
  'completed',
  'failed',
  'cancelled',
)
export type JobEventType = Static<typeof JobEventType>

/** `model` is an alias of `model_config_id`; one of them is required. */
export const CreateTrainingRun = Type.Object(
  {
    job_name: Name,
    model_config_id: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
    model: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
    dataset_id: Uuid,
    hyperparameters: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    operating_mode: Type.Optional(OperatingMode),
    hardware_preference: Type.Optional(HardwarePreference),
    base: Type.Optional(Nullable(ArtifactRef)),
    parent_job_id: Type.Optional(Nullable(Uuid)),
  },
  {
    $id: 'CreateTrainingRun',
    additionalProperties: false,
    ...EitherOf('model_config_id', 'model'),
  },
)
export type CreateTrainingRun = Static<typeof CreateTrainingRun>

/** Changes relative to the run that is rerun; `hyperparameters` replaces individual ones. */
export const RepeatTrainingRun = Type.Object(
  {
    job_name: Type.Optional(Name),
    dataset_id: Type.Optional(Uuid),
    hyperparameters: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  },
  { $id: 'RepeatTrainingRun', additionalProperties: false },
)
export type RepeatTrainingRun = Static<typeof RepeatTrainingRun>

export const TrainingRunAccepted = Type.Object(
  {
    job_id: Uuid,
    status: TrainingRunStatus,
    message: Type.String(),
    estimated_cost_credits: Nullable(Type.Number()),
    queue_position: Type.Integer({ minimum: 0 }),
  },
  { $id: 'TrainingRunAccepted' },
)
export type TrainingRunAccepted = Static<typeof TrainingRunAccepted>

export const EpochLoss = Type.Object({
  epoch: Type.Integer(),
  train_loss: Nullable(Type.Number()),
  val_loss: Nullable(Type.Number()),
  /** Present for language models with an evaluation split. */
  eval_loss: Type.Optional(Type.Number()),
  eval_perplexity: Type.Optional(Type.Number()),
})
export type EpochLoss = Static<typeof EpochLoss>

/** A dataset column that the model did not learn from. */
export const LeftOutColumn = Type.Object({ column: Type.String(), reason: Type.String() })
export type LeftOutColumn = Static<typeof LeftOutColumn>

/**
 * Data that the model learned differently from how it was written, or not at all. `count` is the number of rows or
 * values, `row` the first affected row, counted from 1 without the header.
 */
export const DataWarning = Type.Object({
  message: Type.String(),
  column: Type.Optional(Type.String()),
  count: Type.Optional(Type.Integer()),
  row: Type.Optional(Type.Integer()),
})
export type DataWarning = Static<typeof DataWarning>

/** The set of metrics depends on the model; `epochs` grows while the run is in progress. */
export const TrainingMetrics = Type.Object(
  {
    mae: Type.Optional(Type.Number()),
    rmse: Type.Optional(Type.Number()),
    r2: Type.Optional(Type.Number()),
    /** Only for table models, at most 50; absent in runs from before 0.13. */
    left_out_columns: Type.Optional(Type.Array(LeftOutColumn)),
    /** At most the first 50; the log has all of them. Absent without warnings, and in runs from before 0.13. */
    warnings: Type.Optional(Type.Array(DataWarning)),
    epochs: Type.Array(EpochLoss),
  },
  { $id: 'TrainingMetrics', additionalProperties: true },
)
export type TrainingMetrics = Static<typeof TrainingMetrics>

/** The progress of the current attempt as reported by its trainer; `step` counts epochs, out of `of`. */
export const RunProgress = Type.Object({
  pct: Type.Integer({ minimum: 0, maximum: 100 }),
  step: Type.Integer({ minimum: 0 }),
  of: Type.Integer({ minimum: 0 }),
  /** At the current pace; null until it is known. */
  eta_s: Nullable(Type.Integer({ minimum: 0 })),
})
export type RunProgress = Static<typeof RunProgress>

/** A run or merge in responses. `run_id` is the older name of `job_id`. */
export const TrainingRun = Type.Object(
  {
    job_id: Uuid,
    run_id: Uuid,
    job_name: Type.String(),
    job_type: JobType,
    status: TrainingRunStatus,
    model_config_id: Type.String(),
    dataset_id: Nullable(Uuid),
    operating_mode: OperatingMode,
    hardware_preference: HardwarePreference,
    hyperparameters: Type.Record(Type.String(), Type.Unknown()),
    metrics: Type.Record(Type.String(), Type.Unknown()),
    error_message: Nullable(Type.String()),
    parent_job_id: Nullable(Uuid),
    base: Nullable(ArtifactRef),
    /** The model version that the run produced; null until the run has completed. */
    version_id: Nullable(Uuid),
    attempt: Type.Integer({ minimum: 0 }),
    /** True from a `:pause` until the next `:resume`; the status doesn't change. */
    paused: Type.Boolean(),
    /** Why no node can run the job, or a note that it is paused; null while a node runs it or could run it. */
    waiting: Nullable(Type.Object({ reason: Type.String(), since: Timestamp })),
    /** The progress of the current attempt; null without an attempt, and before its trainer has reported any. */
    progress: Nullable(RunProgress),
    /**
     * The number of jobs ahead of a pending one on the same hardware; null once it has started, and absent in lists.
     */
    queue_position: Type.Optional(Nullable(Type.Integer({ minimum: 0 }))),
    estimated_cost_credits: Nullable(Type.Number()),
    created_at: Timestamp,
    started_at: Nullable(Timestamp),
    completed_at: Nullable(Timestamp),
  },
  { $id: 'TrainingRun' },
)
export type TrainingRun = Static<typeof TrainingRun>

export const TrainingRunListQuery = Type.Object({
  ...SortedPageQuery.properties,
  status: Type.Optional(TrainingRunStatus),
  /** Only paused runs, or only those that aren't paused. */
  paused: Type.Optional(Type.Boolean()),
})
export type TrainingRunListQuery = Static<typeof TrainingRunListQuery>

export const TrainingRunList = Type.Object(
  { runs: Type.Array(TrainingRun), next_cursor: Nullable(Type.String()) },
  { $id: 'TrainingRunList' },
)
export type TrainingRunList = Static<typeof TrainingRunList>

export const TrainingRunParams = Type.Object({ run_id: Uuid })

export const STREAMED_TYPES = ['log', 'metric', 'progress', 'event', 'status'] as const
const StreamedType = Vocabulary(...STREAMED_TYPES)
export type StreamedType = Static<typeof StreamedType>

/** A position in a run's feed, as returned by its stream and log. */
export const FeedCursor = Type.String({ minLength: 1, maxLength: 200 })

export const TrainingRunLogs = Type.Object(
  {
    run_id: Uuid,
    logs: Type.Array(Type.Object({ timestamp: Timestamp, message: Type.String() })),
    /** The cursor of the preceding lines; null when there are none or when `after` was given. */
    next_cursor: Nullable(Type.String()),
    /** The position after these lines, to pass as `after` here or to the stream; null when `cursor` was given. */
    after: Nullable(Type.String()),
  },
  { $id: 'TrainingRunLogs' },
)
export type TrainingRunLogs = Static<typeof TrainingRunLogs>

export const TrainingRunMetrics = Type.Object(
  { run_id: Uuid, metrics: TrainingMetrics },
  { $id: 'RunMetrics' },
)
export type TrainingRunMetrics = Static<typeof TrainingRunMetrics>

export const TrainingRunEvents = Type.Object(
  {
    run_id: Uuid,
    events: Type.Array(
      Type.Object({ event_type: JobEventType, timestamp: Timestamp, detail: Nullable(Type.String()) }),
    ),
  },
  { $id: 'TrainingRunEvents' },
)
export type TrainingRunEvents = Static<typeof TrainingRunEvents>

export const TrainingRunCancelled = Type.Object(
  { run_id: Uuid, status: TrainingRunStatus },
  { $id: 'TrainingRunCancelled' },
)
export type TrainingRunCancelled = Static<typeof TrainingRunCancelled>

/** The response to `:pause` and `:resume`. */
export const TrainingRunPaused = Type.Object(
  { run_id: Uuid, status: TrainingRunStatus, paused: Type.Boolean() },
  { $id: 'TrainingRunPaused' },
)
export type TrainingRunPaused = Static<typeof TrainingRunPaused>

export const ArtifactList = Type.Object(
  {
    job_id: Uuid,
    artifacts: Type.Array(
      Type.Object({ filename: Type.String(), size_bytes: Type.Integer(), last_modified: Timestamp }),
    ),
    total_files: Type.Integer({ minimum: 0 }),
    total_size_bytes: Type.Integer({ minimum: 0 }),
  },
  { $id: 'ArtifactList' },
)
export type ArtifactList = Static<typeof ArtifactList>

export const CheckpointList = Type.Object(
  {
    run_id: Uuid,
    checkpoints: Type.Array(
      Type.Object({
        checkpoint_id: Uuid,
        /** For language models, the optimizer step. */
        epoch: Type.Integer({ minimum: 0 }),
        attempt: Type.Integer({ minimum: 0 }),
        size_bytes: Type.Integer({ minimum: 0 }),
        sha256: Type.String(),
        created_at: Timestamp,
      }),
    ),
  },
  { $id: 'CheckpointList' },
)
export type CheckpointList = Static<typeof CheckpointList>

/** `files` is a comma-separated list of file names; defaults to all files. */
export const DownloadUrlsQuery = Type.Object({
  files: Type.Optional(Type.String({ minLength: 1 })),
  expiration: Type.Optional(Type.Integer({ minimum: 300, maximum: 86_400, default: 3_600 })),
})

export const DownloadUrls = Type.Object(
  {
    job_id: Uuid,
    download_urls: Type.Array(
      Type.Object({
        filename: Type.String(),
        size_bytes: Type.Integer(),
        /** Older gateways don't send it. */
        sha256: Type.Optional(Type.String()),
        download_url: Type.String(),
        expires_in_seconds: Type.Integer(),
      }),
    ),
  },
  { $id: 'DownloadUrls' },
)
export type DownloadUrls = Static<typeof DownloadUrls>
