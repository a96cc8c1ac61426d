import { ApiError } from '../../../domain/errors.ts'

/** The maximum number of one account's streams per gateway: events, training runs, and MCP subscriptions. */
export const MAX_STREAMS = 64
const RETRY_AFTER_S = 5

/** Counts the open streams of each account and of operators. Each stream uses a connection and reads the database. */
export class StreamSlots {
  readonly #open = new Map<string, number>()

  /** Counts a stream until disposed. At the limit, throws `rate_limited`, whose response closes the connection. */
  take(owner: string): Disposable {
    const open = this.#open.get(owner) ?? 0
    if (open >= MAX_STREAMS) throw tooMany()
    this.#open.set(owner, open + 1)
    let isHeld = true
    return {
      [Symbol.dispose]: () => {
        if (!isHeld) return
        isHeld = false
        const remaining = (this.#open.get(owner) ?? 1) - 1
        if (remaining === 0) this.#open.delete(owner)
        else this.#open.set(owner, remaining)
      },
    }
  }
}

const tooMany = () =>
  new ApiError('rate_limited', `at most ${MAX_STREAMS} streams may be open per gateway; close one first`, {
    details: { retry_after_s: RETRY_AFTER_S },
    headers: { 'retry-after': String(RETRY_AFTER_S), connection: 'close' },
  })
