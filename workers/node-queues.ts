import { QUEUES } from '../workflows/policy.ts'
import type { NodeParts } from './node-parts.ts'

const PLACED_SLOTS = 64
const INFER_SLOTS = 32

/** The queues whose work this node can do now (design section 6), and how much of it at once. */
export function wantedQueues(
  { identity, inventory, models }: NodeParts,
  draining: boolean,
): Map<string, number> {
  const queues = new Map([[QUEUES.node(identity.nodeId), PLACED_SLOTS]])
  if (draining) return queues
  if (inventory.train_slots > 0) {
    queues.set(QUEUES.train('cpu'), inventory.train_slots)
    queues.set(QUEUES.mergeCpu, inventory.train_slots)
    if (inventory.hardware === 'gpu') queues.set(QUEUES.train('gpu'), inventory.train_slots)
  }
  for (const { model_key, state } of models.report()) {
    if (state === 'warm' || state === 'running' || state === 'idle')
      queues.set(QUEUES.warm(model_key), INFER_SLOTS)
    if (state === 'evicted') queues.set(QUEUES.cached(model_key), INFER_SLOTS)
  }
  return queues
}
