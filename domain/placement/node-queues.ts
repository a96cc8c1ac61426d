import type { NodeSharing } from '../../schemas/node.ts'

/** The names of the task queues that nodes poll. Queues of dedicated nodes end in the id of their account. */
export const NODE_QUEUES = {
  warm: (modelKey: string) => `warm.${modelKey}`,
  cached: (modelKey: string) => `cached.${modelKey}`,
  node: (nodeId: string) => `node.${nodeId}`,
  train: (hardware: 'cpu' | 'gpu') => `train.${hardware}`,
  mergeCpu: 'merge.cpu',
  /** The variant of a job queue that nodes dedicated to this account poll. */
  own: (queue: string, accountId: string) => `${queue}.${accountId}`,
} as const

/** Returns whether runs on a queue need a GPU. */
export const isGpuQueue = (queue: string): boolean =>
  queue === NODE_QUEUES.train('gpu') || queue.startsWith(NODE_QUEUES.own(NODE_QUEUES.train('gpu'), ''))

/** The number of placed tasks, stages and loads that a node runs at a time. One account gets at most half of them. */
export const PLACED_SLOTS = 128

/** The number of tasks that the queue of a loaded model runs on a node at a time. */
export const WARM_SLOTS = 32

/** The failure of placed work that its node has not claimed, because it has no slot or turn for it. It counts no attempt. */
export const NOT_TAKEN = 'not_taken'

/** The facts about a node that decide which queues it may poll. */
export interface Poller {
  readonly nodeId: string
  readonly accountId: string
  readonly sharing: NodeSharing
  readonly hardware: 'cpu' | 'gpu' | 'xpu'
  /** Models whose load on this node the platform ordered or joined. */
  readonly orderedModels: { has(modelKey: string): boolean }
}

/** Returns the job queues that a node polls unless it drains. */
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
 * Returns whether a node may poll a queue: its own; the job queues of the accounts that it serves; and, on a shared
 * node, the queues of models that the platform ordered there. A dedicated node gets inference only on its own queue,
 * because the queues of a model do not separate accounts.
 */
export function mayPoll(node: Poller, queue: string): boolean {
  if (queue === NODE_QUEUES.node(node.nodeId) || jobQueues(node).includes(queue)) return true
  const [, modelKey] = /^(?:warm|cached)\.(.+)$/s.exec(queue) ?? []
  return modelKey !== undefined && node.sharing === 'shared' && node.orderedModels.has(modelKey)
}
