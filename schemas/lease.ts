import Type, { type Static } from 'typebox'
import { Nullable, Timestamp, Uuid, Vocabulary } from './common.ts'
import { Formed, Sha256 } from './forms.ts'
import { StatusDetail } from './inference-task.ts'
import { OperatingMode } from './training-run.ts'

/** A file name, below at most three folders. */
const Filename = Formed(
  '^(?:[A-Za-z0-9_][A-Za-z0-9._-]{0,99}/){0,3}[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$',
  'must be a file name of letters, digits, ".", "_" and "-", in at most three folders',
)
/** The bound is larger than any file, and sums of sizes still fit into the database. */
const SizeBytes = Type.Integer({ minimum: 0, maximum: 2 ** 50 })
/** A number of epochs or steps. */
const Position = Type.Integer({ minimum: 0, maximum: 1_000_000_000 })
/** The bound is longer than any inference can run: a task's work ends after six hours. */
export const MAX_INFERENCE_MS = 24 * 3_600_000

/** Seconds a lease lasts unless it is renewed. */
export const LEASE_SECONDS = { default: 30, minimum: 1, maximum: 300 } as const

/** A lease is renewed after a third of its term, and then outlives a call under it that is repeated for all of its patience. */
export const TERM_PER_PATIENCE = 1.5
/** The longest time in seconds for which calls are repeated under a lease of the longest term. */
export const MAX_TIMEOUT_S = LEASE_SECONDS.maximum / TERM_PER_PATIENCE

const LeaseSeconds = Type.Optional(Type.Integer(LEASE_SECONDS))

/** The body of both claims. */
export const ClaimRequest = Type.Object({ lease_s: LeaseSeconds }, { $id: 'ClaimRequest' })
export type ClaimRequest = Static<typeof ClaimRequest>

/** The members that the response to every claim has. */
export const Claimed = {
  lease_token: Uuid,
  lease_expires_at: Timestamp,
  attempt: Type.Integer({ minimum: 1 }),
  /** The key of the account's turns on the node. Gateways before 0.13 do not send it. */
  turn: Type.Optional(Type.String()),
}

/**
 * The model that a run starts from: a version that the node requests by key, a list of files, or the reason why the
 * base is missing, which ends the run.
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
        /** The URL is of the model hub itself, which a node may have to reach through its proxy. */
        from_hub: Type.Optional(Type.Boolean()),
      }),
    ),
    /** The node caches files that have a digest under this name. */
    cache_key: Type.Optional(Type.String()),
  }),
  Type.Object({ type: Type.Literal('unavailable'), message: Type.String() }),
])
export type JobBase = Static<typeof JobBase>

/** The full specification of a training run; its URLs are signed at the moment of the claim. */
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
  /** Null for models that are trained from scratch. */
  base: Nullable(JobBase),
  /** The commit of the base's repository, which the adapter names; absent for any other base. */
  base_revision: Type.Optional(Type.String()),
  operating_mode: OperatingMode,
  /** Share of the node's threads that the run may use, above 0 and at most 1. */
  thread_share: Type.Number({ exclusiveMinimum: 0, maximum: 1 }),
  config_digest: Type.String(),
  /** The unit of a checkpoint's position. */
  progress_unit: Vocabulary('epoch', 'step'),
  /** The memory that the trainer is expected to use. */
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

/** What has no room for the files of an attempt: the storage of the platform, or a disk of the node. */
export const RoomWait = Vocabulary('storage', 'disk')
export type RoomWait = Static<typeof RoomWait>

/** `progress` becomes the `status_detail` of a task, or with `step`, `of` and `eta_s` in its `metadata` the `progress` of a job. */
export const RenewLease = Type.Object(
  {
    lease_s: LeaseSeconds,
    progress: Type.Optional(StatusDetail),
    /** What the attempt waits for; null once it no longer waits. Older nodes do not send it. */
    waiting: Type.Optional(Nullable(RoomWait)),
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

/** Requests URLs to PUT files to. The platform chooses the object keys. */
export const UploadUrlsRequest = Type.Object(
  {
    files: Type.Array(
      Type.Object({
        kind: Vocabulary('checkpoint', 'artifact', 'output'),
        filename: Filename,
        size_bytes: SizeBytes,
        content_type: Type.Optional(Type.String({ minLength: 3, maxLength: 200 })),
        /** The object store accepts only bytes with this digest. Nodes before 0.12 do not send it. */
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
        /** All headers to send with the PUT, including the Content-Type. Gateways before 0.12 do not send them. */
        headers: Type.Optional(Type.Record(Type.String(), Type.String())),
        expires_at: Timestamp,
      }),
    ),
  },
  { $id: 'UploadUrls' },
)
export type UploadUrls = Static<typeof UploadUrls>

/** Fields of a stage's input and the addresses in them; in the answer, URLs of those that the platform stores. */
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

/** Registers a checkpoint that has been PUT. */
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
     * A job of higher priority waits for this slot, or the run is paused. The node stops the run and fails the lease
     * with the code `preempted`.
     */
    preempt: Type.Boolean(),
    /** True when the run is paused, in which case the code is `paused`. Nodes before this member do not read it. */
    pause: Type.Optional(Type.Boolean()),
  },
  { $id: 'CheckpointRegistered' },
)
export type CheckpointRegistered = Static<typeof CheckpointRegistered>

const JsonObject = Type.Record(Type.String(), Type.Unknown())

/** The result of a job whose artifacts have been PUT. */
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
    // The task type of the run's config has a listing, which holds for those that are absent.
    input_schema: Type.Optional(JsonObject),
    output_schema: Type.Optional(JsonObject),
    example_input: Type.Optional(JsonObject),
    example_output: Type.Optional(JsonObject),
  },
  { $id: 'CompleteJob' },
)
export type CompleteJob = Static<typeof CompleteJob>

/** The kinds of media that a task's files hold. */
export const Modality = Vocabulary('image', 'audio', 'video', '3d', 'binary')
export type Modality = Static<typeof Modality>

/** A file of a task's result that has been PUT. */
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
    /** The files of the result, which the platform adds to it with their URLs. Nodes before 0.13 do not send them. */
    outputs: Type.Optional(Type.Array(TaskOutput, { minItems: 1, maxItems: 100 })),
    inference_time_ms: Type.Number({ minimum: 0, maximum: MAX_INFERENCE_MS }),
    model_state: Vocabulary('resident', 'cached', 'cold'),
    /**
     * The time that the load waited for the installation of its environment and for the memory of models that were
     * loaded a moment ago. Nodes before 0.12 do not send it.
     */
    environment_ms: Type.Optional(Type.Number({ minimum: 0 })),
  },
  { $id: 'CompleteTask' },
)
export type CompleteTask = Static<typeof CompleteTask>

/** The kind of the lease decides which of the two is valid. */
export const CompleteLease = Type.Union([CompleteJob, CompleteTask], { $id: 'CompleteLease' })
export type CompleteLease = Static<typeof CompleteLease>

export const FailLease = Type.Object(
  {
    /** The code is for programs: `preempted`, `paused`, `drained`, `cancelled`, `data_invalid`, `trainer_failed`, ... */
    code: Formed('^[a-z][a-z0-9_]{0,63}$', 'must be a word of lower-case letters, digits and "_"'),
    /** The message is for people: a sentence, and the last output of the program. */
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
