import Type, { type Static } from 'typebox'
import { ModelSpace } from './cohort-evaluator.ts'
import { StageOperation } from './cohort-plan.ts'
import { EdgeMode, SpaceKind, Transport } from './cohort-vocabulary.ts'
import { Nullable, Timestamp, Uuid } from './common.ts'
import { Sha256 } from './forms.ts'
import { Claimed } from './lease.ts'

const Side = {
  edge_id: Uuid,
  attempt: Type.Integer({ minimum: 1 }),
  kind: SpaceKind,
  mode: EdgeMode,
  transports: Nullable(Type.Array(Transport)),
  space_fingerprint: Sha256,
  max_bytes: Type.Integer({ minimum: 1 }),
}

/** A hand-over that a stage waits for, and the place of its value in the input. */
export const IncomingEdge = Type.Object({
  ...Side,
  path: Type.String(),
  /** What shows of the producer's space in its payload; null for values. */
  space: Nullable(Type.Pick(ModelSpace, ['kind', 'dtype', 'dimensions', 'engine', 'max_tokens'])),
})
export type IncomingEdge = Static<typeof IncomingEdge>

/** A representation that a stage hands over. Values go with its result. */
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
    /** What is known of the input: the static part, with the values from the input of the run. */
    input: Type.Record(Type.String(), Type.Unknown()),
    incoming: Type.Array(IncomingEdge),
    /** How many of these have to have a value; absent for all that are not closed. */
    quorum: Type.Optional(Type.Integer({ minimum: 1 })),
    outgoing: Type.Array(OutgoingEdge),
    /** The longest time of the work itself. */
    timeout_s: Type.Integer({ minimum: 1 }),
    /** The milliseconds that the cohort has left, by the clock of the gateway. */
    deadline_ms: Type.Number({ minimum: 0 }),
    deadline_at: Timestamp,
  },
  { $id: 'StageClaim' },
)
export type StageClaim = Static<typeof StageClaim>
