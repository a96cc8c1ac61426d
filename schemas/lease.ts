import Type, { type Static } from 'typebox'
import { Nullable, Timestamp, Uuid, Vocabulary } from './common.ts'
import { Formed, Sha256 } from './forms.ts'
import { StatusDetail } from './inference-task.ts'
import { OperatingMode } from './training-run.ts'

/** A name, in up to three folders. */
const Filename = Formed(
  '^(?:[A-Za-z0-9_][A-Za-z0-9._-]{0,99}/){0,3}[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$',
  'must be a file name of letters, digits, ".", "_" and "-", in at most three folders',
)
/** No file comes near it, and sums of it fit into the database. */
const SizeBytes = Type.Integer({ minimum: 0, maximum: 2 ** 50 })
/** Counts of epochs and steps. */
const Position = Type.Integer({ minimum: 0, maximum: 1_000_000_000 })
/** Longer than any inference may take: the work of a task ends after six hours. */
export const MOST_INFERENCE_MS = 24 * 3_600_000

/** Seconds a lease lasts unless it is renewed. */
export const LEASE_SECONDS = { default: 30, minimum: 1, maximum: 300 } as const

const LeaseSeconds = Type.Optional(Type.Integer(LEASE_SECONDS))

/** Body of both claims. */
export const ClaimRequest = Type.Object({ lease_s: LeaseSeconds }, { $id: 'ClaimRequest' })
export type ClaimRequest = Static<typeof ClaimRequest>

/** What every claim answers, whatever is claimed. */
export const Claimed = {
  lease_token: Uuid,
  lease_expires_at: Timestamp,
  attempt: Type.Integer({ minimum: 1 }),
}

/** The model a run starts from: one the node can ask for by key, or files; or why there is none, which ends the run. */
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
      }),
    ),
    /** Files with a digest are kept on the node under this name. */
    cache_key: Type.Optional(Type.String()),
  }),
  Type.Object({ type: Type.Literal('unavailable'), message: Type.String() }),
])
export type JobBase = Static<typeof JobBase>

/** Everything a node needs to train, signed and complete at the moment of the claim. */
const JobSpecification = Type.Object({
  job_name: Type.String(),
  model_config_id: Type.String(),
  /** Python module of the trainer. */
  trainer: Type.String(),
  /** Python environment it runs in. */
  environment: Type.String(),
  hyperparameters: Type.Record(Type.String(), Type.Unknown()),
  dataset: Type.Object({
    url: Type.String(),
    format: Vocabulary('csv', 'jsonl', 'parquet', 'hf_dataset'),
    size_bytes: SizeBytes,
    filename: Type.String(),
  }),
  /** Null for models that start from nothing. */
  base: Nullable(JobBase),
  /** The commit of the repository that the base comes from, for the adapter to name; absent where there is none. */
  base_revision: Type.Optional(Type.String()),
  operating_mode: OperatingMode,
  /** Share of the node's threads that the run may use, above 0 and at most 1. */
  thread_share: Type.Number({ exclusiveMinimum: 0, maximum: 1 }),
  config_digest: Type.String(),
  /** What the position of a checkpoint counts. */
  progress_unit: Vocabulary('epoch', 'step'),
  /** Memory the trainer is expected to hold. */
  memory_mb: Type.Integer({ minimum: 0 }),
})

/** Where to go on from; `url` lives for an hour. */
const ResumePoint = Type.Object({
  /** Whose checkpoint it is: this job's, or that of an equal run before it. */
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

/** `progress` is what a task's caller reads in `status_detail`. */
export const RenewLease = Type.Object(
  { lease_s: LeaseSeconds, progress: Type.Optional(StatusDetail) },
  { $id: 'RenewLease' },
)
export type RenewLease = Static<typeof RenewLease>

export const LeaseRenewed = Type.Object({ lease_expires_at: Timestamp }, { $id: 'LeaseRenewed' })
export type LeaseRenewed = Static<typeof LeaseRenewed>

/** Asks for addresses to PUT files to. The platform chooses where they lie. */
export const UploadUrlsRequest = Type.Object(
  {
    files: Type.Array(
      Type.Object({
        kind: Vocabulary('checkpoint', 'artifact', 'output'),
        filename: Filename,
        size_bytes: SizeBytes,
        content_type: Type.Optional(Type.String({ minLength: 3, maxLength: 200 })),
        /** The object store takes only bytes of this digest. Nodes before 0.12 do not tell it. */
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
        /** Everything to send with the PUT, the Content-Type among it; gateways before 0.12 do not tell. */
        headers: Type.Optional(Type.Record(Type.String(), Type.String())),
        expires_at: Timestamp,
      }),
    ),
  },
  { $id: 'UploadUrls' },
)
export type UploadUrls = Static<typeof UploadUrls>

/** A checkpoint that has been PUT. */
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
    /** A job of higher priority waits for this slot: stop here and fail the lease with the code `preempted`. */
    preempt: Type.Boolean(),
  },
  { $id: 'CheckpointRegistered' },
)
export type CheckpointRegistered = Static<typeof CheckpointRegistered>

const JsonObject = Type.Record(Type.String(), Type.Unknown())

/** Result of a job: its artifacts have been PUT. */
export const CompleteJob = Type.Object({
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
  input_schema: JsonObject,
  output_schema: JsonObject,
  example_input: JsonObject,
  example_output: JsonObject,
})
export type CompleteJob = Static<typeof CompleteJob>

/** Result of a task. */
export const CompleteTask = Type.Object({
  result: JsonObject,
  inference_time_ms: Type.Number({ minimum: 0, maximum: MOST_INFERENCE_MS }),
  model_state: Vocabulary('resident', 'cached', 'cold'),
  /** How long the load waited for what the model runs in to be installed. Nodes before 0.12 do not tell it. */
  environment_ms: Type.Optional(Type.Number({ minimum: 0 })),
})
export type CompleteTask = Static<typeof CompleteTask>

/** Which one it must be follows from the lease. */
export const CompleteLease = Type.Union([CompleteJob, CompleteTask], { $id: 'CompleteLease' })
export type CompleteLease = Static<typeof CompleteLease>

export const FailLease = Type.Object(
  {
    /** For machines: `preempted`, `drained`, `cancelled`, `data_invalid`, `trainer_failed`, ... */
    code: Formed('^[a-z][a-z0-9_]{0,63}$', 'must be a word of lower-case letters, digits and "_"'),
    /** For people: a sentence, and what the program said last. */
    message: Type.String({ minLength: 1, maxLength: 8_000 }),
    /** Another attempt may succeed. */
    retryable: Type.Boolean(),
  },
  { $id: 'FailLease' },
)
export type FailLease = Static<typeof FailLease>

const LeaseState = Vocabulary('active', 'completed', 'failed', 'revoked', 'expired')

/** How a lease stands after it was completed or failed. */
export const LeaseClosed = Type.Object({ state: LeaseState }, { $id: 'LeaseClosed' })
export type LeaseClosed = Static<typeof LeaseClosed>
