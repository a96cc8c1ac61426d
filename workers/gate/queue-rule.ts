import type { NodeStanding } from '../../db/repositories/node-standings.ts'
import { QUEUES } from '../../workflows/policy.ts'

/**
 * Whether a node may ask for the work of a task queue: its own always; while it takes new work also those of its hardware,
 * and of the models whose load on it the platform ordered.
 */
export function mayPoll(node: NodeStanding, queue: string): boolean {
  if (node.status === 'removed') return false
  if (queue === QUEUES.node(node.id)) return true
  if (node.status === 'draining') return false
  return queuesOfHardware(node).includes(queue) || isOfModel(queue)
}

function queuesOfHardware({ hardware }: NodeStanding): string[] {
  const queues: string[] = [QUEUES.train('cpu'), QUEUES.mergeCpu]
  if (hardware === 'gpu') queues.push(QUEUES.train('gpu'))
  return queues
}

const isOfModel = (queue: string): boolean =>
  queue.startsWith(QUEUES.warm('')) || queue.startsWith(QUEUES.cached(''))
