import Type, { type Static } from 'typebox'
import { ExactlyOneOf, Nullable, Timestamp, Uuid, Vocabulary } from '../common.ts'
import { Formed, Name } from '../forms.ts'
import { ModelState } from '../inference-task.ts'
import { EdgeMode, SpaceKind, Transport } from './vocabulary.ts'

/** The name of a stage, an output or a space within its graph or model. */
export const Slug = Formed(
  '^[a-z][a-z0-9_-]{0,62}$',
  'must start with a lower-case letter and contain only lower-case letters, digits, "_" and "-", up to 63 characters',
)

/** A JSON Pointer (RFC 6901); the empty string refers to the whole value. */
export const Pointer = Formed(
  '^(?:/(?:[^~/]|~[01])*)*$',
  'must be a JSON Pointer such as "/messages/0/content", or "" for the whole value',
  { maxLength: 1_000 },
)

/** An endpoint by its id or name. */
export const EndpointRef = Type.String({ minLength: 1, maxLength: 200 })

export const COHORT_LIMITS = {
  stages: 64,
  edges: 256,
  inlineBytes: 65_536,
  /** The total size of the values handed over from one result, and of a cohort's outputs. */
  valueBytes: 64 * 2 ** 20,
  payloadBytes: 16 * 2 ** 30,
  holdS: 120,
} as const

export const StageOperation = Vocabulary('infer', 'embed', 'prefill', 'decode', 'layers')
export type StageOperation = Static<typeof StageOperation>

/** The longest deadline of a run. */
export const MAX_DEADLINE_S = 86_400

const Hardware = Vocabulary('cpu', 'gpu', 'xpu')
const JsonObject = Type.Record(Type.String(), Type.Unknown())

export const Stage = Type.Object(
  {
    stage_id: Slug,
    endpoint_id: Type.Optional(EndpointRef),
    model_config_id: Type.Optional(Uuid),
    operation: Type.Optional(StageOperation),
    /** The static part of the input, into which edges write. */
    input: Type.Optional(JsonObject),
    required: Type.Optional(Type.Boolean()),
    /** The value that a skipped stage's edges and outputs get; only for a stage that isn't required. */
    default_output: Type.Optional(Type.Unknown()),
    /** Endpoints to try, in order, after the last attempt at the stage's own endpoint. */
    fallbacks: Type.Optional(Type.Array(EndpointRef, { maxItems: 4 })),
    /** Starts the stage once this many incoming edges have their value; the others are cancelled. */
    quorum: Type.Optional(Type.Integer({ minimum: 1, maximum: COHORT_LIMITS.edges })),
    max_attempts: Type.Optional(Type.Integer({ minimum: 1, maximum: 5 })),
    timeout_s: Type.Optional(Type.Integer({ minimum: 1, maximum: 21_600 })),
    placement: Type.Optional(
      Type.Object(
        {
          hardware: Type.Optional(Hardware),
          node_ids: Type.Optional(Type.Array(Uuid, { minItems: 1, maxItems: 100 })),
          not_node_ids: Type.Optional(Type.Array(Uuid, { maxItems: 100 })),
          same_node_as: Type.Optional(Slug),
        },
        { additionalProperties: false },
      ),
    ),
  },
  { additionalProperties: false, ...ExactlyOneOf('endpoint_id', 'model_config_id') },
)
export type Stage = Static<typeof Stage>

export const Edge = Type.Object(
  {
    edge_id: Type.Optional(Slug),
    from: Type.Object(
      { stage_id: Slug, path: Type.Optional(Pointer) },
      { additionalProperties: false, description: 'A stage, or "input" for the input of the run' },
    ),
    to: Type.Object(
      {
        stage_id: Slug,
        path: Pointer,
        /** A string that contains `{{value}}` once. */
        template: Type.Optional(Type.String({ maxLength: 10_000 })),
      },
      { additionalProperties: false },
    ),
    /** Names of registered spaces on both sides. Without them, the value is handed over as JSON. */
    space: Type.Optional(Type.Object({ source: Slug, target: Slug }, { additionalProperties: false })),
    mode: Type.Optional(EdgeMode),
    transports: Type.Optional(Type.Array(Transport, { minItems: 1, maxItems: 5, uniqueItems: true })),
    min_score: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
    max_bytes: Type.Optional(Type.Integer({ minimum: 1, maximum: COHORT_LIMITS.payloadBytes })),
  },
  { additionalProperties: false },
)
export type Edge = Static<typeof Edge>

const Constraints = Type.Object(
  {
    objective: Type.Optional(Vocabulary('latency', 'cost')),
    deadline_s: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_DEADLINE_S })),
    max_cost_credits: Type.Optional(Type.Number({ minimum: 0, maximum: 1e9 })),
    min_score: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
    allow_relay: Type.Optional(Type.Boolean()),
    node_accounts: Type.Optional(Vocabulary('own', 'any')),
    hardware: Type.Optional(Vocabulary('cpu', 'gpu', 'xpu', 'any')),
    /** Places each stage on a different node. */
    spread: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
)

/** A graph of stages whose edges hand over values. `cohorts:plan` places it and `cohorts:run` runs it. */
export const PlanRequest = Type.Object(
  {
    name: Type.Optional(Name),
    stages: Type.Array(Stage, { minItems: 1, maxItems: COHORT_LIMITS.stages }),
    edges: Type.Array(Edge, { maxItems: COHORT_LIMITS.edges }),
    /** Defaults to the result of every stage without outgoing edges, named by its `stage_id`. */
    outputs: Type.Optional(
      Type.Array(
        Type.Object(
          { name: Slug, stage_id: Slug, path: Type.Optional(Pointer) },
          { additionalProperties: false },
        ),
        { minItems: 1, maxItems: 64 },
      ),
    ),
    constraints: Type.Optional(Constraints),
    /** The expected payload sizes of edges in bytes, by edge id. */
    sample_sizes: Type.Optional(Type.Record(Type.String(), Type.Integer({ minimum: 0, maximum: 2 ** 40 }))),
  },
  { $id: 'PlanRequest', additionalProperties: false },
)
export type PlanRequest = Static<typeof PlanRequest>

/** Reasons why a graph cannot run now; in a feasible plan, warnings about what may go wrong. */
export const PlanReasonCode = Vocabulary(
  'cycle',
  'unknown_stage',
  'unknown_endpoint',
  'endpoint_not_callable',
  'endpoint_disabled',
  'no_node_fits',
  'memory',
  'hardware',
  'space_missing',
  'space_mismatch',
  'space_revoked',
  'evidence_missing',
  'evidence_below_threshold',
  'evidence_expired',
  'evidence_revoked',
  'operation_not_supported',
  'over_deadline',
  'over_budget',
  'transport_not_allowed',
  'two_writers',
  'dead_end',
  'unknown_input',
  'unknown_output',
)
export type PlanReasonCode = Static<typeof PlanReasonCode>

export const PlanReason = Type.Object({
  code: PlanReasonCode,
  message: Type.String(),
  stage_id: Type.Optional(Type.String()),
  edge_id: Type.Optional(Type.String()),
})
export type PlanReason = Static<typeof PlanReason>

/** Milliseconds with one decimal. */
const Ms = Type.Number({ minimum: 0 })

const PlannedStage = Type.Object({
  stage_id: Type.String(),
  endpoint_id: Nullable(Uuid),
  model_name: Nullable(Type.String()),
  node_id: Nullable(Uuid),
  node_name: Nullable(Type.String()),
  model_state: Nullable(ModelState),
  queue_ms: Ms,
  load_ms: Ms,
  run_ms: Ms,
  start_ms: Ms,
  end_ms: Ms,
  /** How much later the stage could end without delaying the run. */
  slack_ms: Ms,
  memory_mb: Type.Integer({ minimum: 0 }),
  price_credits: Type.Number({ minimum: 0 }),
  why: Type.String(),
  alternatives: Type.Array(Type.Object({ node_id: Uuid, end_ms: Ms, reason: Type.String() }), {
    maxItems: 3,
  }),
  /** The number of nodes that cannot run the stage, by reason. */
  excluded: Type.Record(Type.String(), Type.Integer({ minimum: 1 })),
})
export type PlannedStage = Static<typeof PlannedStage>

const EdgeEnd = Type.Object({ stage_id: Type.String(), path: Type.String() })

const PlannedEdge = Type.Object({
  edge_id: Type.String(),
  from: EdgeEnd,
  to: EdgeEnd,
  kind: SpaceKind,
  transport: Nullable(Transport),
  /** `session` only if the edge requests it and the nodes would be connected. */
  mode: EdgeMode,
  estimated_bytes: Type.Integer({ minimum: 0 }),
  estimated_ms: Ms,
  rate_mb_s: Nullable(Type.Number({ minimum: 0 })),
  rate_source: Vocabulary('measured', 'node', 'default'),
  evidence_id: Nullable(Uuid),
  score: Nullable(Type.Number({ minimum: 0, maximum: 1 })),
})
export type PlannedEdge = Static<typeof PlannedEdge>

/** Where and when each stage would run, and why; or the reasons why the graph cannot run now. */
export const Plan = Type.Object(
  {
    plan_id: Uuid,
    feasible: Type.Boolean(),
    expires_at: Timestamp,
    snapshot_at: Timestamp,
    stages: Type.Array(PlannedStage),
    edges: Type.Array(PlannedEdge),
    critical_path: Type.Array(Type.String()),
    estimated_latency_ms: Ms,
    lower_bound_ms: Ms,
    estimated_cost_credits: Type.Number({ minimum: 0 }),
    reasons: Type.Array(PlanReason),
    planner: Type.Object({
      algorithm: Type.String(),
      candidates: Type.Integer({ minimum: 0 }),
      moves: Type.Integer({ minimum: 0 }),
      ms: Ms,
    }),
  },
  { $id: 'CohortPlan' },
)
export type Plan = Static<typeof Plan>
