import Type, { type Static } from 'typebox'
import { ExactlyOneOf, Nullable, Timestamp, Uuid } from '../common.ts'
import { Sha256 } from '../forms.ts'
import { ModelState } from '../inference-task.ts'
import { MAX_DEADLINE_S, PlanRequest, Pointer } from './plan.ts'
import {
  CohortEventType,
  CohortState,
  EdgeFailure,
  EdgeMode,
  EdgeState,
  SpaceKind,
  StageState,
  Transport,
} from './vocabulary.ts'

const JsonObject = Type.Record(Type.String(), Type.Unknown())

/** The largest `input` of a run; larger inputs are uploaded to an endpoint and referenced by URL. */
export const MAX_RUN_INPUT_BYTES = 1024 * 1024

/** The allowed length of `X-User-ID`, the user on whose behalf a cohort runs. */
export const USER_ID_LENGTH = { minLength: 1, maxLength: 200 } as const

export const RunRequest = Type.Object(
  {
    plan_id: Type.Optional(Uuid),
    plan: Type.Optional(PlanRequest),
    input: JsonObject,
    deadline_s: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_DEADLINE_S })),
    resume_of: Type.Optional({
      ...Uuid,
      description: 'The id of a cohort, or of its task, whose finished stages this run reuses',
    }),
    /** Stores the results of all stages, not only the outputs. */
    keep_outputs: Type.Optional(Type.Boolean()),
    labels: Type.Optional(
      Type.Record(Type.String({ maxLength: 63 }), Type.String({ maxLength: 200 }), { maxProperties: 16 }),
    ),
  },
  { $id: 'RunRequest', additionalProperties: false, ...ExactlyOneOf('plan_id', 'plan') },
)
export type RunRequest = Static<typeof RunRequest>

export const CohortAccepted = Type.Object(
  {
    task_id: Uuid,
    cohort_id: Uuid,
    plan_id: Uuid,
    status: CohortState,
    note: Type.String(),
  },
  { $id: 'CohortAccepted' },
)
export type CohortAccepted = Static<typeof CohortAccepted>

const Ms = Nullable(Type.Number({ minimum: 0 }))

const Fault = Type.Object({
  code: Type.String(),
  message: Type.String(),
  stage_id: Type.Optional(Type.String()),
  edge_id: Type.Optional(Type.String()),
})

const StageSummary = Type.Object({
  stage_id: Type.String(),
  endpoint_id: Uuid,
  model_name: Nullable(Type.String()),
  status: StageState,
  attempt: Type.Integer({ minimum: 0 }),
  node_id: Nullable(Uuid),
  node_name: Nullable(Type.String()),
  model_state: Nullable(ModelState),
  /** How long the stage waited for a node, how long the model took to load, and how long the work took. */
  wait_ms: Ms,
  load_ms: Ms,
  run_ms: Ms,
  started_at: Nullable(Timestamp),
  completed_at: Nullable(Timestamp),
  price_credits: Type.Number({ minimum: 0 }),
  /** The account whose node ran the successful attempt. */
  paid_to: Nullable(Uuid),
  output_kept: Type.Boolean(),
  error: Nullable(Fault),
})
export type StageSummary = Static<typeof StageSummary>

const EdgeEnd = Type.Object({ stage_id: Type.String(), path: Type.String() })

const EdgeSummary = Type.Object({
  edge_id: Uuid,
  name: Type.String(),
  from: EdgeEnd,
  to: EdgeEnd,
  kind: SpaceKind,
  state: EdgeState,
  attempt: Type.Integer({ minimum: 1 }),
  transport: Nullable(Transport),
  /** The agreed mode; until then, the mode requested by the graph. */
  mode: EdgeMode,
  bytes: Nullable(Type.Integer({ minimum: 0 })),
  sha256: Nullable(Sha256),
  transfer_ms: Ms,
  rate_mb_s: Nullable(Type.Number({ minimum: 0 })),
  producer_node_id: Nullable(Uuid),
  consumer_node_id: Nullable(Uuid),
  evidence_id: Nullable(Uuid),
  failure: Nullable(EdgeFailure),
})
export type EdgeSummary = Static<typeof EdgeSummary>

export const CohortSummary = Type.Object(
  {
    task_id: Uuid,
    cohort_id: Uuid,
    plan_id: Uuid,
    name: Nullable(Type.String()),
    user_id: Type.String(),
    status: CohortState,
    created_at: Timestamp,
    started_at: Nullable(Timestamp),
    completed_at: Nullable(Timestamp),
    deadline_at: Timestamp,
    estimated_latency_ms: Type.Number({ minimum: 0 }),
    elapsed_ms: Type.Number({ minimum: 0 }),
    cost_credits: Type.Number({ minimum: 0 }),
    replans: Type.Integer({ minimum: 0 }),
    error: Nullable(Fault),
    waiting_for: Nullable(Type.String()),
    stages: Type.Array(StageSummary),
    edges: Type.Array(EdgeSummary),
    critical_path: Type.Array(Type.String()),
    /** Where each output is in the `result` of the task. */
    outputs: Type.Record(Type.String(), Type.Object({ task_result_path: Pointer })),
    events_url: Type.String(),
  },
  { $id: 'CohortSummary' },
)
export type CohortSummary = Static<typeof CohortSummary>

export const CohortEvent = Type.Object(
  {
    event_id: Uuid,
    sequence: Type.Integer({ minimum: 1 }),
    type: CohortEventType,
    task_id: Uuid,
    cohort_id: Uuid,
    stage_id: Nullable(Type.String()),
    edge_id: Nullable(Uuid),
    node_id: Nullable(Uuid),
    attempt: Nullable(Type.Integer({ minimum: 0 })),
    data: JsonObject,
    created_at: Timestamp,
  },
  { $id: 'CohortEvent' },
)
export type CohortEvent = Static<typeof CohortEvent>

/**
 * `next_cursor` is null on what is currently the last page. A follower continues after the last `event_id` it has seen,
 * until an event reports the end of the cohort.
 */
export const CohortEvents = Type.Object(
  { events: Type.Array(CohortEvent), next_cursor: Nullable(Uuid) },
  { $id: 'CohortEvents' },
)
export type CohortEvents = Static<typeof CohortEvents>
