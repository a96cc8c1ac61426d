import Type, { type Static } from 'typebox'
import { Nullable, Timestamp, Uuid, Vocabulary } from '../common.ts'
import { Sha256 } from '../forms.ts'
import { EdgeMode, SpaceKind, Transport } from './vocabulary.ts'

const Count = Type.Integer({ minimum: 0 })

/**
 * The current conditions for cohort runs. It covers the account's cohorts and edges, and the nodes that serve the
 * account.
 */
export const CohortHealth = Type.Object(
  {
    status: Vocabulary('ok', 'degraded', 'disabled'),
    reasons: Type.Array(Type.String()),
    checked_at: Timestamp,
    temporal: Vocabulary('ok', 'down'),
    nodes: Type.Object({
      online: Count,
      /** Nodes that can hand representations over to other nodes. */
      edge_capable: Count,
      /** Nodes from which another node has received a payload directly. */
      direct_reachable: Count,
    }),
    cohorts: Type.Object({
      queued: Count,
      running: Count,
      /** Cohorts that are waiting for a node, or whose deadline has passed. */
      stalled: Count,
    }),
    edges: Type.Object({ open: Count, held_bytes: Count, failed_1h: Count, relayed_1h: Count }),
    evaluator: Type.Object({
      model_spaces: Count,
      evidence_active: Count,
      evidence_expiring_7d: Count,
      runs_open: Count,
    }),
    kill_switch: Type.Object({ active: Type.Boolean(), reason: Nullable(Type.String()) }),
  },
  { $id: 'CohortHealth' },
)
export type CohortHealth = Static<typeof CohortHealth>

const Space = Type.Object({
  space_id: Uuid,
  name: Type.String(),
  kind: SpaceKind,
  fingerprint: Sha256,
  dimensions: Nullable(Type.Integer()),
  dtype: Nullable(Type.String()),
  /** The digest that a model's space depends on in addition to its form; null for text and JSON. */
  weights_digest: Nullable(Sha256),
})

/** An endpoint of the account to which this one can hand over a representation, or from which it can accept one. */
const Neighbour = Type.Object({
  endpoint_id: Uuid,
  via: Vocabulary('equal', 'evidence'),
  evidence_id: Nullable(Uuid),
  score: Nullable(Type.Number()),
  valid_until: Nullable(Timestamp),
})
export type Neighbour = Static<typeof Neighbour>

/** The conditions under which a stage at an endpoint would currently run. */
export const CohortCapabilities = Type.Object(
  {
    endpoint_id: Uuid,
    model_config_id: Nullable(Uuid),
    /** True when a run would currently be admitted and find a node. */
    dispatchable: Type.Boolean(),
    reasons: Type.Array(Type.Object({ code: Type.String(), message: Type.String() })),
    operations: Type.Array(Type.String()),
    /** Operations that hand their payload over in parts if an edge from them is a session. */
    streamed_operations: Type.Array(Type.String()),
    produces: Type.Array(Space),
    accepts: Type.Array(Space),
    transports: Type.Array(Transport),
    /** The modes available to edges from a stage at this endpoint. */
    modes: Type.Array(EdgeMode),
    nodes: Type.Object({ warm: Count, cached: Count, could_load: Count, edge_capable: Count }),
    feeds: Type.Array(Neighbour, { maxItems: 50 }),
    fed_by: Type.Array(Neighbour, { maxItems: 50 }),
    limits: Type.Object({
      max_stages: Count,
      max_edges: Count,
      inline_bytes: Count,
      max_payload_bytes: Count,
      hold_s: Count,
    }),
  },
  { $id: 'CohortCapabilities' },
)
export type CohortCapabilities = Static<typeof CohortCapabilities>
