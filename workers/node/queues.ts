import { jobQueues, PLACED_SLOTS } from '../../domain/placement/node-queues.ts'
import type { NodeSharing } from '../../schemas/node.ts'
import { QUEUES } from '../../workflows/contract/policy.ts'
import type { NodeParts } from './parts.ts'

const INFER_SLOTS = 32

export interface NodeAvailability {
  draining: boolean
  /** The accounts that the node works for; undefined until a gateway has sent them. */
  sharing: NodeSharing | undefined
}

/** Returns the queues whose work this node can do now, with the number of concurrent activities. */
export function wantedQueues(
  { identity, inventory, models }: NodeParts,
  { draining, sharing }: NodeAvailability,
): Map<string, number> {
  const queues = new Map([[QUEUES.node(identity.nodeId), PLACED_SLOTS]])
  if (draining || sharing === undefined) return queues
  if (inventory.train_slots > 0) {
    const { accountId } = identity
    for (const queue of jobQueues({ accountId, sharing, hardware: inventory.hardware })) {
      queues.set(queue, inventory.train_slots)
    }
  }
  // Inference for a dedicated node is placed on its own queue.
  if (sharing === 'dedicated') return queues
  for (const { model_key, state } of models.report()) {
    if (state === 'warm' || state === 'running' || state === 'idle')
      queues.set(QUEUES.warm(model_key), INFER_SLOTS)
    if (state === 'evicted') queues.set(QUEUES.cached(model_key), INFER_SLOTS)
  }
  return queues
}
