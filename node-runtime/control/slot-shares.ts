import { getOrThrow } from '../../domain/at.ts'
import { hasShare, sharedOf } from '../../domain/placement/dispatched-tasks.ts'
import { PLACED_SLOTS } from '../../domain/placement/node-queues.ts'
import { QueueFullError } from '../../platform/async/fair-semaphore.ts'

/**
 * Shares the slots of a node's own queue among accounts. Tasks and cohort stages may occupy their slots for hours.
 */
export class SlotShares {
  readonly #shared: number
  readonly #taken = new Map<string, number>()
  #total = 0

  /** @param slots The number of slots in the queue. */
  constructor(slots: number = PLACED_SLOTS) {
    this.#shared = sharedOf(slots)
  }

  /** Takes a slot for an account's key until the result is disposed of. Never waits; throws `QueueFullError`. */
  take(key: string): Disposable {
    const own = this.#taken.get(key) ?? 0
    if (!hasShare(own, this.#total, this.#shared))
      throw new QueueFullError("the account has used up its share of this node's slots")
    this.#set(key, own + 1)
    let isHeld = true
    return {
      [Symbol.dispose]: () => {
        if (isHeld) this.#set(key, getOrThrow(this.#taken, key) - 1)
        isHeld = false
      },
    }
  }

  #set(key: string, taken: number): void {
    this.#total += taken - (this.#taken.get(key) ?? 0)
    if (taken === 0) this.#taken.delete(key)
    else this.#taken.set(key, taken)
  }
}
