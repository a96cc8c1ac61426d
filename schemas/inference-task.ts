import Type, { type Static } from 'typebox'
import { CohortState } from './cohorts/vocabulary.ts'
import { Nullable, OrderedPageQuery, pageOf, Timestamp, Uuid, Vocabulary } from './common.ts'

export const TaskStatus = Vocabulary(
  'queued',
  'assigned',
  'claimed',
  'preparing',
  'downloading_model',
  'loading_model',
  'running',
  'generating',
  'uploading_output',
  'succeeded',
  'failed',
)
export type TaskStatus = Static<typeof TaskStatus>

/** The state in which a request found its model. */
export const ModelState = Vocabulary('resident', 'cached', 'cold')
export type ModelState = Static<typeof ModelState>

/** The API surface that a task arrived on. */
export const TaskSurface = Vocabulary('rest', 'openai', 'mcp', 'action')
export type TaskSurface = Static<typeof TaskSurface>

/** The surface shown for a task in lists; a cohort run has its own value. */
export const ListedSurface = Vocabulary('rest', 'openai', 'mcp', 'action', 'cohort')

const JsonObject = Type.Record(Type.String(), Type.Unknown())

/** The progress of a task; the members of `metadata` depend on the step. */
export const StatusDetail = Type.Object(
  {
    status: Type.String({ minLength: 1, maxLength: 64 }),
    progress_pct: Type.Integer({ minimum: 0, maximum: 100 }),
    metadata: JsonObject,
  },
  { $id: 'StatusDetail' },
)
export type StatusDetail = Static<typeof StatusDetail>

export const SYNC_TIMEOUT_S = { default: 30, minimum: 1, maximum: 300 } as const

/** The body of `infer`. For language models, the last two members override the same fields of `input`. */
export const InferBody = Type.Object(
  {
    input: JsonObject,
    sync: Type.Optional(Type.Boolean({ default: true })),
    sync_timeout_s: Type.Optional(Type.Number(SYNC_TIMEOUT_S)),
    max_tokens: Type.Optional(Type.Integer({ minimum: 1, maximum: 4096 })),
    temperature: Type.Optional(Type.Number({ minimum: 0, maximum: 2 })),
  },
  { $id: 'InferBody', additionalProperties: false },
)
export type InferBody = Static<typeof InferBody>

export const InferResponse = Type.Object(
  {
    task_id: Uuid,
    status: TaskStatus,
    model_state: Nullable(ModelState),
    result: Type.Optional(JsonObject),
    sync_latency_ms: Type.Number({ description: 'How long this request has taken' }),
    estimated_load_time_s: Type.Optional(
      Type.Number({
        description:
          'For a cold or cached model: estimated from its own loads, else from loads of similar models, else from its size',
      }),
    ),
    message: Type.Optional(Type.String()),
    error: Type.Optional(Type.String({ description: 'Why it failed, as in `GET /tasks/{task_id}`' })),
    /** Advice for a caller whose result isn't ready. */
    note: Type.Optional(Type.String()),
  },
  { $id: 'InferResponse' },
)
export type InferResponse = Static<typeof InferResponse>

export const InferAccepted = Type.Object(
  { task_id: Uuid, status: TaskStatus, model_state: ModelState, note: Type.String() },
  { $id: 'InferAccepted' },
)
export type InferAccepted = Static<typeof InferAccepted>

/** A task in responses; `error` is present once the task has failed. */
export const InferenceTask = Type.Object(
  {
    task_id: Uuid,
    endpoint_id: Uuid,
    surface: ListedSurface,
    status: TaskStatus,
    status_detail: Nullable(StatusDetail),
    model_state: Nullable(ModelState),
    result: Nullable(JsonObject),
    error: Nullable(Type.String()),
    inference_time_ms: Nullable(Type.Number()),
    created_at: Timestamp,
    completed_at: Nullable(Timestamp),
  },
  { $id: 'InferenceTask' },
)
export type InferenceTask = Static<typeof InferenceTask>

export const TaskParams = Type.Object({ task_id: Uuid })

export const TaskListQuery = Type.Object({
  ...OrderedPageQuery.properties,
  status: Type.Optional(TaskStatus),
  endpoint_id: Type.Optional(Uuid),
  surface: Type.Optional(ListedSurface),
  since: Type.Optional({ ...Timestamp, description: 'Created at this time or later' }),
  until: Type.Optional({ ...Timestamp, description: 'Created before this time' }),
})
export type TaskListQuery = Static<typeof TaskListQuery>

/** A task in a list, without its input and result. */
export const ListedTask = Type.Object(
  {
    task_id: Uuid,
    endpoint_id: Uuid,
    surface: ListedSurface,
    status: TaskStatus,
    cohort_status: Nullable({
      ...CohortState,
      description: 'The state of the cohort that the task belongs to',
    }),
    model_state: Nullable(ModelState),
    error: Nullable(Type.String()),
    key_id: Nullable(Type.String({ description: 'The key that requested it, if recorded' })),
    tokens_in: Nullable(Type.Integer()),
    tokens_out: Nullable(Type.Integer()),
    price_micro: Type.Integer({ description: 'Micro-credits; refunded when the task fails' }),
    inference_time_ms: Nullable(Type.Number()),
    created_at: Timestamp,
    started_at: Nullable(Timestamp),
    completed_at: Nullable(Timestamp),
  },
  { $id: 'ListedTask' },
)
export type ListedTask = Static<typeof ListedTask>

export const TaskList = pageOf('tasks', ListedTask)

export const TaskCancelled = Type.Object({ task_id: Uuid, status: TaskStatus }, { $id: 'TaskCancelled' })
export type TaskCancelled = Static<typeof TaskCancelled>

const Count = Type.Integer({ minimum: 0 })

export const QueueStats = Type.Object(
  {
    /** Tasks of this account that are queued or running. */
    queue_size: Count,
    /** Nodes that accept work, across all accounts. */
    workers: Count,
    metrics: Type.Object({ enqueued: Count, succeeded: Count, failed: Count, expired: Count }),
  },
  { $id: 'QueueStats' },
)
export type QueueStats = Static<typeof QueueStats>

/** The content types that can be uploaded as an input, and the largest input. */
export const INPUT_TYPES = [
  'image/png',
  'image/jpeg',
  'image/webp',
  'audio/wav',
  'audio/mpeg',
  'audio/mp4',
  'audio/ogg',
  'audio/flac',
  'video/mp4',
  'model/gltf-binary',
  'application/pdf',
  'text/csv',
  'application/json',
  'application/jsonl',
  'application/vnd.apache.parquet',
] as const
export const MAX_INPUT_BYTES = 50 * 1024 * 1024
export const INPUT_URL_TTL_S = 3_600

export const UploadedInput = Type.Object(
  { input_url: Type.String(), expires_in: Type.Integer(), size_bytes: Count },
  { $id: 'UploadedInput' },
)
export type UploadedInput = Static<typeof UploadedInput>
