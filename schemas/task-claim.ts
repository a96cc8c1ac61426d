import Type, { type Static } from 'typebox'
import { Uuid } from './common.ts'
import { Claimed } from './lease.ts'

/** The response to a node's claim of a task. */
export const TaskClaim = Type.Object(
  {
    task_id: Uuid,
    ...Claimed,
    endpoint_id: Uuid,
    model_name: Type.String(),
    /** The model's name on nodes; `model_name` is the name of the endpoint. */
    model_key: Type.String(),
    /** The task type of the endpoint, for the path of the model server; older gateways do not send it. */
    task_type: Type.Optional(Type.String()),
    /** A URL from which the holder of the lease can download the input while the lease lasts. */
    input_url: Type.String(),
    /**
     * The files of the input that were uploaded to the platform, by their field; a node fetches others by their public
     * address. Gateways before 0.13 do not send them.
     */
    files: Type.Optional(Type.Array(Type.Object({ field: Type.String(), url: Type.String() }))),
  },
  { $id: 'TaskClaim' },
)
export type TaskClaim = Static<typeof TaskClaim>

/** On the input of a task: the account's memory has been added to it. A node may read the input again without. */
export const MEMORY_HEADER = 'x-hearth-memory'
