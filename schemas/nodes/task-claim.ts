import Type, { type Static } from 'typebox'
import { Uuid } from '../common.ts'
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
    /** The task type of the endpoint, for the path on the model server; older gateways don't send it. */
    task_type: Type.Optional(Type.String()),
    /** A URL from which the lease holder can download the input while the lease lasts. */
    input_url: Type.String(),
    /**
     * Input files that were uploaded to the platform, by field; the node fetches others from their public URLs.
     * Gateways before 0.13 don't send them.
     */
    files: Type.Optional(Type.Array(Type.Object({ field: Type.String(), url: Type.String() }))),
  },
  { $id: 'TaskClaim' },
)
export type TaskClaim = Static<typeof TaskClaim>

/**
 * Set on a task's input when the account's memory has been added to it. A node may read the input again without the
 * memory.
 */
export const MEMORY_HEADER = 'x-hearth-memory'
