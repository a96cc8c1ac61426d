import { NODE_QUEUES } from './node-queues.ts'
import { type NodeSnapshot, serves } from './node-snapshot.ts'

/** A queue on which an attempt at a job is offered, and how long nodes have to take it before it is offered elsewhere. */
export interface JobOffer {
  readonly taskQueue: string
  readonly waitS: number
}

/**
 * Seconds of an offer. With one kind of node alone there is nothing to alternate with, and a long offer keeps the job's
 * place in the queue; without any node it is looked again soon, for the first that joins may be of either kind.
 */
const WAIT_S = { ownFirst: 15, thenShared: 30, ownAlone: 120, sharedAlone: 3_600, nobody: 30 } as const

/** Where an attempt at a job is offered, one after the other: to the account's own nodes first, then to shared ones. */
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
  if (hasOwn && hasShared) return [own(WAIT_S.ownFirst), shared(WAIT_S.thenShared)]
  if (hasOwn) return [own(WAIT_S.ownAlone)]
  return [shared(hasShared ? WAIT_S.sharedAlone : WAIT_S.nobody)]
}
