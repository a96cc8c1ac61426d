import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common'
import { NOT_TAKEN } from '../../domain/placement/node-queues.ts'
import type { SlotShares } from '../../node-runtime/control/slot-shares.ts'
import { LineFull } from '../../platform/async/fair-turns.ts'

/** The failure of placed work that gives its slot back before it is claimed, so that it is placed again later. */
export const notTaken = (message: string): ApplicationFailure =>
  ApplicationFailure.create({
    message,
    type: NOT_TAKEN,
    nonRetryable: true,
    category: ApplicationFailureCategory.BENIGN,
  })

/** Takes one of the slots that an account may occupy on this node. Throws `NOT_TAKEN` when it has its share. */
export function takeShare(shares: SlotShares, turn: string): Disposable {
  try {
    return shares.take(turn)
  } catch (err) {
    throw err instanceof LineFull ? notTaken('the account has its share of the slots of this node') : err
  }
}
