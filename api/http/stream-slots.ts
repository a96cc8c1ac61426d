import { ApiError } from '../../domain/errors.ts'

/** The streams of one account at a gateway: of events, of training runs, and of the tools' changes over MCP. */
export const MAX_STREAMS = 64
const RETRY_AFTER_S = 5

/** Counts the open streams of each account, and of the operators; each holds a connection and reads the database. */
export class StreamSlots {
  readonly #open = new Map<string, number>()

  /** Counts a stream until disposed; throws `rate_limited`, whose response closes the connection, for one too many. */
  take(owner: string): Disposable {
    const open = this.#open.get(owner) ?? 0
    if (open >= MAX_STREAMS) throw tooMany()
    this.#open.set(owner, open + 1)
    let isHeld = true
    return {
      [Symbol.dispose]: () => {
        if (!isHeld) return
        isHeld = false
        const left = (this.#open.get(owner) ?? 1) - 1
        if (left === 0) this.#open.delete(owner)
        else this.#open.set(owner, left)
      },
    }
  }
}

const tooMany = () =>
  new ApiError(
    'rate_limited',
    `no more than ${MAX_STREAMS} streams may be open at a gateway; end one first`,
    {
      details: { retry_after_s: RETRY_AFTER_S },
      headers: { 'retry-after': String(RETRY_AFTER_S), connection: 'close' },
    },
  )
