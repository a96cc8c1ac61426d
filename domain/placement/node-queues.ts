import type { NodeSharing } from '../../schemas/nodes/node.ts'

/** The names of the task queues that nodes poll. Queues of dedicated nodes end in their account's id. */
export const NODE_QUEUES = {
  warm: (modelKey: string) => `warm.${modelKey}`,
  cached: (modelKey: string) => `cached.${modelKey}`,
  node: (nodeId: string) => `node.${nodeId}`,
  train: (hardware: 'cpu' | 'gpu') => `train.${hardware}`,
  mergeCpu: 'merge.cpu',
  /** The variant of a job queue that this account's dedicated nodes poll. */
  own: (queue: string, accountId: string) => `${queue}.${accountId}`,
} as const

/** Returns whether runs on a queue need a GPU. */
export const isGpuQueue = (queue: string): boolean =>
  queue === NODE_QUEUES.train('gpu') || queue.startsWith(NODE_QUEUES.own(NODE_QUEUES.train('gpu'), ''))

/** How many placed tasks, stages and loads a node runs at a time. One account gets at most half of them. */
export const PLACED_SLOTS = 128

/** How many tasks the queue of a loaded model runs on a node at a time. */
export const WARM_SLOTS = 32

/** The failure of placed work that its node did not claim for lack of a slot. It doesn't count as an attempt. */
export const NOT_TAKEN = 'not_taken'

/** Facts about a node that decide which queues it may poll. */
export interface Poller {
  readonly nodeId: string
  readonly accountId: string
  readonly sharing: NodeSharing
  readonly hardware: 'cpu' | 'gpu' | 'xpu'
  /** Models that the platform ordered this node to load, or whose load it joined. */
  readonly orderedModels: { has(modelKey: string): boolean }
}

/** Returns the job queues that a node polls unless it is draining. */
export function jobQueues({
  accountId,
  sharing,
  hardware,
}: Pick<Poller, 'accountId' | 'sharing' | 'hardware'>): string[] {
  const queues: string[] = [NODE_QUEUES.train('cpu'), NODE_QUEUES.mergeCpu]
  if (hardware === 'gpu') queues.push(NODE_QUEUES.train('gpu'))
  return sharing === 'shared' ? queues : queues.map((queue) => NODE_QUEUES.own(queue, accountId))
}

/**
 * Returns whether a node may poll a queue. A node may poll its own queue and the job queues of the accounts that it
 * serves. A shared node may also poll the queues of its `orderedModels`. A dedicated node gets inference only on its
 * own queue, because model queues don't separate accounts.
 */
export function mayPoll(node: Poller, queue: string): boolean {
  if (queue === NODE_QUEUES.node(node.nodeId) || jobQueues(node).includes(queue)) return true
  const [, modelKey] = /^(?:warm|cached)\.(.+)$/s.exec(queue) ?? []
  return modelKey !== undefined && node.sharing === 'shared' && node.orderedModels.has(modelKey)
}
