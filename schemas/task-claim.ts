import Type, { type Static } from 'typebox'
import { Uuid } from './common.ts'
import { Claimed } from './lease.ts'

/** What a node gets with a task. */
export const TaskClaim = Type.Object(
  {
    task_id: Uuid,
    ...Claimed,
    endpoint_id: Uuid,
    model_name: Type.String(),
    /** Names the model everywhere on nodes; `model_name` is the endpoint's. */
    model_key: Type.String(),
    /** Gives the input to whoever holds the lease, for as long as it lasts. */
    input_url: Type.String(),
  },
  { $id: 'TaskClaim' },
)
export type TaskClaim = Static<typeof TaskClaim>
