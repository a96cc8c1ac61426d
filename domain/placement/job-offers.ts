import { NODE_QUEUES } from './node-queues.ts'
import { type NodeSnapshot, serves } from './node-snapshot.ts'

/** A queue on which an attempt at a job is offered, and how long nodes have to accept it. */
export interface JobOffer {
  readonly taskQueue: string
  readonly waitS: number
}

/**
 * The duration of an offer in seconds. If only one kind of node exists, a long offer preserves the job's place in the
 * queue. Without any node the offer is short, because the first node to join may be of either kind.
 */
const OFFER_TIMEOUT_S = {
  ownFirst: 15,
  thenShared: 30,
  ownAlone: 120,
  sharedAlone: 3_600,
  noNode: 30,
} as const

/**
 * Returns the queues on which an attempt at a job is offered, in order: those of the account's own nodes first, then
 * the shared ones.
 */
export function jobOffers(
  nodes: readonly NodeSnapshot[],
  { account_id, task_queue }: { account_id: string; task_queue: string },
): JobOffer[] {
  const able = nodes.filter(
    (node) =>
      !node.draining &&
      serves(node, account_id) &&
      (task_queue !== NODE_QUEUES.train('gpu') || node.hardware === 'gpu'),
  )
  const hasShared = able.some(({ sharing }) => sharing === 'shared')
  const hasOwn = able.some(({ sharing }) => sharing === 'dedicated')
  const own = (waitS: number) => ({ taskQueue: NODE_QUEUES.own(task_queue, account_id), waitS })
  const shared = (waitS: number) => ({ taskQueue: task_queue, waitS })
  if (hasOwn && hasShared) return [own(OFFER_TIMEOUT_S.ownFirst), shared(OFFER_TIMEOUT_S.thenShared)]
  if (hasOwn) return [own(OFFER_TIMEOUT_S.ownAlone)]
  return [shared(hasShared ? OFFER_TIMEOUT_S.sharedAlone : OFFER_TIMEOUT_S.noNode)]
}
