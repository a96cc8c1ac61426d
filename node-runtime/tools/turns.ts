import { PLACED_SLOTS } from '../../domain/placement/node-queues.ts'
import { FairSemaphore } from '../../platform/async/fair-semaphore.ts'

const MAX_WAITING = 1_000
const MAX_SLOTS = (3 * PLACED_SLOTS) / 4
const MAX_SLOTS_PER_ACCOUNT = PLACED_SLOTS / 2
/** The minimum number of slots for queued tasks, however many tools this machine can run. */
const MIN_WAITING_SLOTS = 8

/** Schedules a node's tools in turns. A turn's key identifies an account, so that no account takes all turns. */
export class ToolTurns {
  readonly #runs: FairSemaphore
  readonly #slots: FairSemaphore

  /** @param atOnce The number of tools that this machine runs at a time. */
  constructor(atOnce: number) {
    this.#runs = new FairSemaphore({ most: atOnce, mostPerKey: atOnce - 1, mostWaiting: MAX_WAITING })
    // Twice the number of running tools, because tasks also read their input and store their result.
    const most = Math.min(2 * atOnce, MAX_SLOTS - MIN_WAITING_SLOTS)
    const mostPerKey = Math.min(most - 1, MAX_SLOTS_PER_ACCOUNT - MIN_WAITING_SLOTS)
    this.#slots = new FairSemaphore({
      most,
      mostPerKey,
      // A single account may fill the queue, so the queue is limited to the rest of one account's share.
      mostWaiting: MAX_SLOTS_PER_ACCOUNT - mostPerKey,
    })
  }

  /**
   * Waits until a tool may start. The turn is held until it is disposed of. Throws `QueueFullError`, or the signal's
   * reason.
   */
  takeRun(key: string, signal: AbortSignal): Promise<Disposable> {
    return this.#runs.take(key, signal)
  }

  /**
   * Waits until a placed task may run its tool; in the meantime the task occupies a slot of the node's queue. One
   * account's tasks occupy at most half of the slots, and all accounts' tasks at most three quarters. Throws
   * `QueueFullError` if the task must give up its slot, or the signal's reason.
   */
  takeSlot(key: string, signal: AbortSignal): Promise<Disposable> {
    return this.#slots.take(key, signal)
  }
}
