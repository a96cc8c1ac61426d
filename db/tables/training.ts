import type { ColumnType, Insertable, Selectable } from 'kysely'
import type {
  HardwarePreference,
  OperatingMode,
  RunProgress,
  TrainingRunStatus,
} from '../../schemas/training-run.ts'
import type { CreatedAt, WithDefault, Json, NullableJson, Optional, ChangeSequence } from './columns.ts'

export interface JobTable {
  id: string
  account_id: string
  job_type: 'training' | 'merge'
  job_name: string
  status: TrainingRunStatus
  model_config_id: string
  dataset_id: Optional<string>
  hyperparameters: Json<Record<string, unknown>>
  operating_mode: OperatingMode
  hardware_preference: HardwarePreference
  task_queue: string
  base: NullableJson<Record<string, unknown>>
  parent_job_id: Optional<string>
  /**
   * A digest of the account, config, hyperparameters, dataset and base. A run may resume from another run with the same
   * digest.
   */
  config_digest: string
  /** The commit of the base's hub repository, once it has been resolved. */
  base_revision: Optional<string>
  attempt: WithDefault<number>
  metrics: NullableJson<Record<string, unknown>>
  /** The trainer's description of the model: schemas, examples, observed memory. */
  output: NullableJson<Record<string, unknown>>
  error_message: Optional<string>
  /** The reason why no node can run the job, and since when; null while a node runs it or could. */
  waiting_reason: Optional<string>
  waiting_since: Optional<Date>
  /** The time of its pause; no attempt begins while it is set. */
  paused_at: Optional<Date>
  estimated_cost_credits: Optional<number>
  created_at: CreatedAt
  started_at: Optional<Date>
  completed_at: Optional<Date>
  deleted_at: Optional<Date>
  /** The time at which leftover files of its attempts were removed. */
  files_swept_at: Optional<Date>
  /** The position of its status in the run's feed. */
  place: ChangeSequence
  progress: NullableJson<RunProgress>
  progress_place: ColumnType<number | null, undefined, never>
}
export type JobRow = Selectable<JobTable>
export type NewJob = Insertable<JobTable>

export interface JobEventTable {
  id: string
  job_id: string
  event_type:
    | 'queued'
    | 'started'
    | 'checkpoint'
    | 'resumed'
    | 'preempted'
    | 'paused'
    | 'artifact_uploaded'
    | 'completed'
    | 'failed'
    | 'cancelled'
  dedupe: string
  detail: Optional<string>
  created_at: WithDefault<Date>
  place: ChangeSequence
}
export type JobEventRow = Selectable<JobEventTable>

export interface JobLogTable {
  job_id: string
  attempt: number
  seq: number
  message: string
  created_at: Date
  place: ChangeSequence
}

export interface JobLogSizeTable {
  job_id: string
  bytes: number
}

export interface JobEpochTable {
  job_id: string
  epoch: number
  attempt: number
  train_loss: Optional<number>
  val_loss: Optional<number>
  eval_loss: Optional<number>
  eval_perplexity: Optional<number>
  created_at: WithDefault<Date>
  place: ChangeSequence
}

export interface JobCheckpointTable {
  id: string
  job_id: string
  attempt: number
  epoch: number
  object_key: string
  size_bytes: number
  sha256: string
  config_digest: string
  created_at: CreatedAt
}
export type JobCheckpointRow = Selectable<JobCheckpointTable>

export interface ArtifactTable {
  id: string
  job_id: string
  filename: string
  object_key: string
  size_bytes: number
  content_type: WithDefault<string>
  sha256: string
  last_modified: WithDefault<Date>
}
export type ArtifactRow = Selectable<ArtifactTable>

export interface TrainingTables {
  training_run: JobTable
  job_event: JobEventTable
  job_log: JobLogTable
  job_log_size: JobLogSizeTable
  job_epoch: JobEpochTable
  job_checkpoint: JobCheckpointTable
  artifact: ArtifactTable
}
