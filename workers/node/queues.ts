import { jobQueues, PLACED_SLOTS, WARM_SLOTS } from '../../domain/placement/node-queues.ts'
import type { NodeSharing } from '../../schemas/nodes/node.ts'
import { QUEUES } from '../../workflows/contract/policy.ts'
import type { QueueSize } from './activity-queues.ts'
import type { NodeParts } from './parts.ts'

/** All work that is placed on this node by name arrives on one queue, so that queue has the most pollers. */
const PLACED_POLLERS = 4
/** Jobs run for minutes, so one poll at a time starts them fast enough. */
const JOB_POLLERS = 1
/** One poll can wait while the other is being answered. */
const WARM_POLLERS = 2
/**
 * The largest number of loaded models whose queues are polled. Every poll is an open call at the gate, which admits a
 * fixed number per node. The number of polls must therefore not grow with the number of models. Work for the other
 * loaded models is placed on the node's own queue.
 */
export const MAX_WARM_QUEUES = 64

export interface NodeAvailability {
  draining: boolean
  /** Which accounts the node works for; undefined until a gateway has sent it. */
  sharing: NodeSharing | undefined
}

type QueueParts = Pick<NodeParts, 'identity' | 'inventory'> & {
  gpuHealth: Pick<NodeParts['gpuHealth'], 'isUnusable' | 'hasRuns'>
  models: Pick<NodeParts['models'], 'stayingKeys'>
}

/**
 * Returns the queues whose work this node can do now. They need at most 4 + 3 + 2 * `MAX_WARM_QUEUES` polls, regardless
 * of the number of models on disk. Work for a model that isn't loaded arrives on the node's own queue.
 */
export function wantedQueues(
  { identity, inventory, models, gpuHealth }: QueueParts,
  { draining, sharing }: NodeAvailability,
): Map<string, QueueSize> {
  const queues = new Map<string, QueueSize>([
    [QUEUES.node(identity.nodeId), { slots: PLACED_SLOTS, pollers: PLACED_POLLERS }],
  ])
  if (draining || sharing === undefined) return queues
  if (inventory.train_slots > 0) {
    const { accountId } = identity
    // Idle nodes take jobs first, so a node with failing GPUs would fail one run after another. During a run the queue
    // stays open, because closing it would cancel the run; the node then refuses other runs.
    const hardware = gpuHealth.isUnusable && !gpuHealth.hasRuns ? 'cpu' : inventory.hardware
    for (const queue of jobQueues({ accountId, sharing, hardware })) {
      queues.set(queue, { slots: inventory.train_slots, pollers: JOB_POLLERS })
    }
  }
  // Inference for a dedicated node is placed on its own queue.
  if (sharing === 'dedicated') return queues
  for (const modelKey of models.stayingKeys().slice(0, MAX_WARM_QUEUES)) {
    queues.set(QUEUES.warm(modelKey), { slots: WARM_SLOTS, pollers: WARM_POLLERS })
  }
  return queues
}
