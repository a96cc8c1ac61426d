import Type, { type Static } from 'typebox'
import { Nullable, Timestamp, Uuid } from '../common.ts'
import { Sha256 } from '../forms.ts'
import { Claimed } from '../nodes/lease.ts'
import { ModelSpace } from './evaluator.ts'
import { StageOperation } from './plan.ts'
import { EdgeMode, SpaceKind, Transport } from './vocabulary.ts'

const Side = {
  edge_id: Uuid,
  attempt: Type.Integer({ minimum: 1 }),
  kind: SpaceKind,
  mode: EdgeMode,
  transports: Nullable(Type.Array(Transport)),
  space_fingerprint: Sha256,
  max_bytes: Type.Integer({ minimum: 1 }),
}

/** A hand-over that a stage waits for, and the path of its value in the input. */
export const IncomingEdge = Type.Object({
  ...Side,
  path: Type.String(),
  /** The parts of the producer's space that its payload depends on; null for values. */
  space: Nullable(Type.Pick(ModelSpace, ['kind', 'dtype', 'dimensions', 'engine', 'max_tokens'])),
})
export type IncomingEdge = Static<typeof IncomingEdge>

/** A representation that a stage hands over. Values are part of its result. */
export const OutgoingEdge = Type.Object({ ...Side, path: Type.String() })
export type OutgoingEdge = Static<typeof OutgoingEdge>

/** The response to a node's claim of a stage. */
export const StageClaim = Type.Object(
  {
    cohort_id: Uuid,
    stage_id: Uuid,
    name: Type.String(),
    ...Claimed,
    endpoint_id: Uuid,
    model_name: Type.String(),
    model_key: Type.String(),
    task_type: Type.String(),
    operation: StageOperation,
    /** The known input: the static part plus the values from the input of the run. */
    input: Type.Record(Type.String(), Type.Unknown()),
    incoming: Type.Array(IncomingEdge),
    /** How many incoming edges must have a value; if absent, every edge that isn't closed. */
    quorum: Type.Optional(Type.Integer({ minimum: 1 })),
    outgoing: Type.Array(OutgoingEdge),
    /** The time limit of the work itself. */
    timeout_s: Type.Integer({ minimum: 1 }),
    /** Milliseconds left until the cohort's deadline, by the gateway's clock. */
    deadline_ms: Type.Number({ minimum: 0 }),
    deadline_at: Timestamp,
  },
  { $id: 'StageClaim' },
)
export type StageClaim = Static<typeof StageClaim>
