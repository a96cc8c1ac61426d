import type { NodeSharing } from '../../schemas/node.ts'

/** Queues of the work that nodes do, by name. Those of dedicated nodes end in the id of their account. */
export const NODE_QUEUES = {
  warm: (modelKey: string) => `warm.${modelKey}`,
  cached: (modelKey: string) => `cached.${modelKey}`,
  node: (nodeId: string) => `node.${nodeId}`,
  train: (hardware: 'cpu' | 'gpu') => `train.${hardware}`,
  mergeCpu: 'merge.cpu',
  /** Where nodes dedicated to this account look for what waits on a queue of jobs. */
  own: (queue: string, accountId: string) => `${queue}.${accountId}`,
} as const

/** Tasks that were placed on a node and that it takes at once. */
export const PLACED_SLOTS = 64

/** What decides on the queues of a node. */
export interface Poller {
  readonly nodeId: string
  readonly accountId: string
  readonly sharing: NodeSharing
  readonly hardware: 'cpu' | 'gpu' | 'xpu'
  /** Models whose load on this node the platform ordered or joined. */
  readonly orderedModels: { has(modelKey: string): boolean }
}

/** The queues of jobs that a node polls while it takes work. */
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
 * Whether a node may take work from a queue: its own, those of jobs for the accounts it serves, and, when it serves every
 * account, those of models that are to be loaded on it. What runs on a dedicated node is placed on it by name, for the
 * queues of a model are not told apart by account.
 */
export function mayPoll(node: Poller, queue: string): boolean {
  if (queue === NODE_QUEUES.node(node.nodeId) || jobQueues(node).includes(queue)) return true
  const [, modelKey] = /^(?:warm|cached)\.(.+)$/s.exec(queue) ?? []
  return modelKey !== undefined && node.sharing === 'shared' && node.orderedModels.has(modelKey)
}
