import { PLACED_SLOTS } from '../../domain/placement/node-queues.ts'
import { LineFull } from '../../platform/async/fair-turns.ts'

/**
 * Shares the slots of a node's own queue among accounts, for work that may wait in them for hours: tasks and stages of
 * cohorts. Three quarters of the slots are shared, so loads always find the others free. An account gets one more while
 * it has fewer than twice the shared slots that are free, which is half of all slots for one account alone, and leaves
 * some for accounts that come later.
 */
export class SlotShares {
  readonly #shared: number
  readonly #taken = new Map<string, number>()
  #total = 0

  /** `slots` is the number of slots of the queue. */
  constructor(slots: number = PLACED_SLOTS) {
    this.#shared = (3 * slots) / 4
  }

  /** Takes a slot for an account's key until disposed. Never waits; throws `LineFull`. */
  take(key: string): Disposable {
    const own = this.#taken.get(key) ?? 0
    if (own >= 2 * (this.#shared - this.#total)) throw new LineFull('its account has its share of the slots')
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
