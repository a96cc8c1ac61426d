import Type, { type Static } from 'typebox'
import { Nullable, Timestamp, Uuid, Vocabulary } from '../common.ts'
import { Formed, Sha256 } from '../forms.ts'
import { StatusDetail } from '../inference-task.ts'
import { OperatingMode } from '../training-run.ts'
import { LEASE_SECONDS } from './lease-terms.ts'

/** A file name, nested in at most three folders. */
const Filename = Formed(
  '^(?:[A-Za-z0-9_][A-Za-z0-9._-]{0,99}/){0,3}[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$',
  'must be a file name of letters, digits, ".", "_" and "-", nested in at most three folders',
)
/** Above the size of any real file, but small enough that the database can store sums of sizes. */
const SizeBytes = Type.Integer({ minimum: 0, maximum: 2 ** 50 })
/** A number of epochs or steps. */
const Position = Type.Integer({ minimum: 0, maximum: 1_000_000_000 })
/** Longer than any inference can run: a task's work ends after six hours. */
export const MAX_INFERENCE_MS = 24 * 3_600_000

const LeaseSeconds = Type.Optional(Type.Integer(LEASE_SECONDS))

/** The request body of every claim. */
export const ClaimRequest = Type.Object({ lease_s: LeaseSeconds }, { $id: 'ClaimRequest' })
export type ClaimRequest = Static<typeof ClaimRequest>

/** Members of the response to every claim. */
export const Claimed = {
  lease_token: Uuid,
  lease_expires_at: Timestamp,
  attempt: Type.Integer({ minimum: 1 }),
  /** The key by which the node takes turns between accounts. Gateways before 0.13 don't send it. */
  turn: Type.Optional(Type.String()),
}

/**
 * The model that a run starts from: a version that the node requests by key, or a list of files. Otherwise, the reason
 * why the base is missing, which ends the run.
 */
export const JobBase = Type.Union([
  Type.Object({ type: Type.Literal('version'), model_key: Type.String() }),
  Type.Object({
    type: Type.Literal('files'),
    files: Type.Array(
      Type.Object({
        path: Type.String(),
        size_bytes: SizeBytes,
        sha256: Type.Optional(Sha256),
        url: Type.String(),
        /** True if the URL points to the model hub itself, which a node may have to reach through its proxy. */
        from_hub: Type.Optional(Type.Boolean()),
      }),
    ),
    /** The name under which the node caches files that have a digest. */
    cache_key: Type.Optional(Type.String()),
  }),
  Type.Object({ type: Type.Literal('unavailable'), message: Type.String() }),
])
export type JobBase = Static<typeof JobBase>

/** The full specification of a training run; its URLs are signed when the job is claimed. */
const JobSpecification = Type.Object({
  job_name: Type.String(),
  model_config_id: Type.String(),
  /** The trainer's Python module. */
  trainer: Type.String(),
  /** The Python environment of the trainer. */
  environment: Type.String(),
  hyperparameters: Type.Record(Type.String(), Type.Unknown()),
  dataset: Type.Object({
    url: Type.String(),
    format: Vocabulary('csv', 'jsonl', 'parquet', 'hf_dataset'),
    size_bytes: SizeBytes,
    filename: Type.String(),
  }),
  /** Null for models trained from scratch. */
  base: Nullable(JobBase),
  /** The commit of the base's repository, which the adapter records; absent for any other base. */
  base_revision: Type.Optional(Type.String()),
  operating_mode: OperatingMode,
  /** The share of the node's threads that the run may use, above 0 and at most 1. */
  thread_share: Type.Number({ exclusiveMinimum: 0, maximum: 1 }),
  config_digest: Type.String(),
  /** The unit of a checkpoint's position. */
  progress_unit: Vocabulary('epoch', 'step'),
  /** The expected memory use of the trainer. */
  memory_mb: Type.Integer({ minimum: 0 }),
})

/** The checkpoint to resume from; `url` is valid for an hour. */
const ResumePoint = Type.Object({
  /** The job that wrote the checkpoint: this one, or an earlier job with the same configuration. */
  job_id: Uuid,
  url: Type.String(),
  filename: Filename,
  epoch: Type.Integer({ minimum: 0 }),
  sha256: Sha256,
  size_bytes: SizeBytes,
})

export const JobClaim = Type.Object(
  {
    job_id: Uuid,
    ...Claimed,
    specification: JobSpecification,
    checkpoint: Nullable(ResumePoint),
  },
  { $id: 'JobClaim' },
)
export type JobClaim = Static<typeof JobClaim>

/** The storage that ran out of space for an attempt's files: the platform's, or one of the node's disks. */
export const StorageWait = Vocabulary('storage', 'disk')
export type StorageWait = Static<typeof StorageWait>

/**
 * `progress` becomes the `status_detail` of a task. For a job, the `step`, `of` and `eta_s` in its `metadata` become
 * the job's `progress`.
 */
export const RenewLease = Type.Object(
  {
    lease_s: LeaseSeconds,
    progress: Type.Optional(StatusDetail),
    /** The storage that the attempt is waiting for; null once the wait is over. Older nodes don't send it. */
    waiting: Type.Optional(Nullable(StorageWait)),
  },
  { $id: 'RenewLease' },
)
export type RenewLease = Static<typeof RenewLease>

export const LeaseRenewed = Type.Object(
  {
    lease_expires_at: Timestamp,
    /** True when the run is paused: the node stops it after a checkpoint and fails the lease with the code `paused`. */
    pause: Type.Optional(Type.Boolean()),
  },
  { $id: 'LeaseRenewed' },
)
export type LeaseRenewed = Static<typeof LeaseRenewed>

/** Requests URLs for uploading files. The platform chooses the object keys. */
export const UploadUrlsRequest = Type.Object(
  {
    files: Type.Array(
      Type.Object({
        kind: Vocabulary('checkpoint', 'artifact', 'output'),
        filename: Filename,
        size_bytes: SizeBytes,
        content_type: Type.Optional(Type.String({ minLength: 3, maxLength: 200 })),
        /** The object store accepts only bytes with this digest. Nodes before 0.12 don't send it. */
        sha256: Type.Optional(Sha256),
      }),
      { minItems: 1, maxItems: 200 },
    ),
  },
  { $id: 'UploadUrlsRequest' },
)
export type UploadUrlsRequest = Static<typeof UploadUrlsRequest>

export const UploadUrls = Type.Object(
  {
    files: Type.Array(
      Type.Object({
        filename: Filename,
        url: Type.String(),
        /** The Content-Type to send with the PUT. */
        content_type: Type.String(),
        /** All headers to send with the PUT, including the Content-Type. Gateways before 0.12 don't send them. */
        headers: Type.Optional(Type.Record(Type.String(), Type.String())),
        expires_at: Timestamp,
      }),
    ),
  },
  { $id: 'UploadUrls' },
)
export type UploadUrls = Static<typeof UploadUrls>

/** Fields of a stage's input, with the URLs in them. The response has URLs for the files that the platform stores. */
export const InputFiles = Type.Object(
  {
    files: Type.Array(
      Type.Object({
        field: Type.String({ minLength: 1, maxLength: 100 }),
        url: Type.String({ maxLength: 16_384 }),
      }),
      { maxItems: 16 },
    ),
  },
  { $id: 'InputFiles' },
)
export type InputFiles = Static<typeof InputFiles>

/** Registers an uploaded checkpoint. */
export const RegisterCheckpoint = Type.Object(
  {
    filename: Filename,
    epoch: Position,
    size_bytes: SizeBytes,
    sha256: Sha256,
  },
  { $id: 'RegisterCheckpoint' },
)
export type RegisterCheckpoint = Static<typeof RegisterCheckpoint>

export const CheckpointRegistered = Type.Object(
  {
    checkpoint_id: Uuid,
    /**
     * A higher-priority job is waiting for this slot, or the run is paused. The node stops the run and fails the lease
     * with the code `preempted`.
     */
    preempt: Type.Boolean(),
    /** True when the run is paused; the code is then `paused`. Older nodes don't read this member. */
    pause: Type.Optional(Type.Boolean()),
  },
  { $id: 'CheckpointRegistered' },
)
export type CheckpointRegistered = Static<typeof CheckpointRegistered>

const JsonObject = Type.Record(Type.String(), Type.Unknown())

/** The result of a job whose artifacts have been uploaded. */
export const CompleteJob = Type.Object(
  {
    artifacts: Type.Array(
      Type.Object({
        filename: Filename,
        size_bytes: SizeBytes,
        sha256: Sha256,
        content_type: Type.String({ minLength: 3, maxLength: 200 }),
      }),
      { minItems: 1, maxItems: 200 },
    ),
    metrics: JsonObject,
    // If absent, the schemas and examples listed for the task type of the run's config apply.
    input_schema: Type.Optional(JsonObject),
    output_schema: Type.Optional(JsonObject),
    example_input: Type.Optional(JsonObject),
    example_output: Type.Optional(JsonObject),
  },
  { $id: 'CompleteJob' },
)
export type CompleteJob = Static<typeof CompleteJob>

/** The media types of a task's files. */
export const Modality = Vocabulary('image', 'audio', 'video', '3d', 'binary')
export type Modality = Static<typeof Modality>

/** An uploaded file of a task's result. */
export const TaskOutput = Type.Object({
  filename: Filename,
  size_bytes: SizeBytes,
  sha256: Sha256,
  content_type: Type.String({ minLength: 3, maxLength: 200 }),
  modality: Modality,
})
export type TaskOutput = Static<typeof TaskOutput>

/** The result of a task. */
export const CompleteTask = Type.Object(
  {
    result: JsonObject,
    /** The result's files. The platform adds them to the result with their URLs. Nodes before 0.13 don't send them. */
    outputs: Type.Optional(Type.Array(TaskOutput, { minItems: 1, maxItems: 100 })),
    inference_time_ms: Type.Number({ minimum: 0, maximum: MAX_INFERENCE_MS }),
    model_state: Vocabulary('resident', 'cached', 'cold'),
    /**
     * How long the load waited for its environment to be installed and for memory held by recently loaded models. Nodes
     * before 0.12 don't send it.
     */
    environment_ms: Type.Optional(Type.Number({ minimum: 0 })),
  },
  { $id: 'CompleteTask' },
)
export type CompleteTask = Static<typeof CompleteTask>

/** The lease's kind decides which of the two is valid. */
export const CompleteLease = Type.Union([CompleteJob, CompleteTask], { $id: 'CompleteLease' })
export type CompleteLease = Static<typeof CompleteLease>

export const FailLease = Type.Object(
  {
    /** A machine-readable code: `preempted`, `paused`, `drained`, `cancelled`, `data_invalid`, `trainer_failed`, ... */
    code: Formed(
      '^[a-z][a-z0-9_]{0,63}$',
      'must start with a lower-case letter and consist of lower-case letters, digits and "_"',
    ),
    /** A human-readable message: a sentence, and the program's last output. */
    message: Type.String({ minLength: 1, maxLength: 8_000 }),
    /** True when another attempt may succeed. */
    retryable: Type.Boolean(),
  },
  { $id: 'FailLease' },
)
export type FailLease = Static<typeof FailLease>

const LeaseState = Vocabulary('active', 'completed', 'failed', 'revoked', 'expired')

/** The state of a lease after `complete` or `fail`. */
export const LeaseClosed = Type.Object({ state: LeaseState }, { $id: 'LeaseClosed' })
export type LeaseClosed = Static<typeof LeaseClosed>
