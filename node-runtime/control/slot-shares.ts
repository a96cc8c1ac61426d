import { hasShare, sharedOf } from '../../domain/placement/held-tasks.ts'
import { PLACED_SLOTS } from '../../domain/placement/node-queues.ts'
import { LineFull } from '../../platform/async/fair-turns.ts'

/**
 * Shares the slots of a node's own queue among accounts, for work that may wait in them for hours: tasks and stages of
 * cohorts.
 */
export class SlotShares {
  readonly #shared: number
  readonly #taken = new Map<string, number>()
  #total = 0

  /** `slots` is the number of slots of the queue. */
  constructor(slots: number = PLACED_SLOTS) {
    this.#shared = sharedOf(slots)
  }

  /** Takes a slot for an account's key until disposed. Never waits; throws `LineFull`. */
  take(key: string): Disposable {
    const own = this.#taken.get(key) ?? 0
    if (!hasShare(own, this.#total, this.#shared))
      throw new LineFull('its account has its share of the slots')
    this.#set(key, own + 1)
    let isHeld = true
    return {
      [Symbol.dispose]: () => {
        if (isHeld) this.#set(key, this.#taken.get(key)! - 1)
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
