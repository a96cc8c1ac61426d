import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common'
import { NOT_TAKEN } from '../../domain/placement/node-queues.ts'
import type { SlotShares } from '../../node-runtime/control/slot-shares.ts'
import { QueueFullError } from '../../platform/async/fair-semaphore.ts'

/** The failure of placed work that gives its slot back before the claim, so that the workflow places it again later. */
export const notTaken = (message: string): ApplicationFailure =>
  ApplicationFailure.create({
    message,
    type: NOT_TAKEN,
    nonRetryable: true,
    category: ApplicationFailureCategory.BENIGN,
  })

/** Takes one of an account's slots on this node. Throws `NOT_TAKEN` when the account's share is used up. */
export function acquireSlot(shares: SlotShares, turn: string): Disposable {
  try {
    return shares.take(turn)
  } catch (err) {
    throw err instanceof QueueFullError
      ? notTaken("the account's share of this node's slots is used up")
      : err
  }
}
