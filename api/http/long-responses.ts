import type { ServerResponse } from 'node:http'
import { temporaryError } from '../../domain/errors.ts'
import { FairSemaphore, QueueFullError } from '../../platform/async/fair-semaphore.ts'

/** How many accounts may build long responses at once. Waiting requests hold no memory. */
const TURNS = { most: 64, mostPerKey: 1, mostWaiting: 256 } as const
const RETRY_AFTER_S = 1
/**
 * The rate limit of an account's long responses, which occupy the gateway's only thread for milliseconds per megabyte.
 */
const BYTES_PER_MS = 8 * 1024
const SHORT_BYTES = 16 * 1024

/**
 * Builds an account's long responses one after another. A pause after each, in proportion to its length, lets other
 * requests run in between.
 */
export class LongResponses {
  readonly #turns = new FairSemaphore(TURNS)

  /**
   * Waits for the account's turn and holds it until disposed; throws `rate_limited` if too many requests are waiting.
   */
  async take(accountId: string, signal: AbortSignal): Promise<LongResponseTurn> {
    try {
      return new LongResponseTurn(await this.#turns.take(accountId, signal))
    } catch (err) {
      if (!(err instanceof QueueFullError)) throw err
      throw temporaryError(
        'rate_limited',
        'too many long responses are requested at once; try again',
        RETRY_AFTER_S,
      )
    }
  }
}

/** The turn of one response. It ends on disposal, or after the pause that the response's length requires. */
class LongResponseTurn implements Disposable {
  readonly #turn: Disposable
  #restMs = 0

  constructor(turn: Disposable) {
    this.#turn = turn
  }

  /** Ends the turn after a pause for `bytes`, once the response (if any) is sent or its client has disconnected. */
  endWith(res: ServerResponse | undefined, bytes: number): void {
    this.restForBytes(bytes)
    if (!res || res.closed || bytes <= SHORT_BYTES) this[Symbol.dispose]()
    else res.once('close', () => this[Symbol.dispose]())
  }

  /** Pauses in proportion to this length. */
  restForBytes(bytes: number): void {
    if (bytes > SHORT_BYTES) this.#restMs = bytes / BYTES_PER_MS
  }

  /** Pauses for this long after a response whose work, rather than its length, takes time. */
  restForMs(ms: number): void {
    this.#restMs = ms
  }

  [Symbol.dispose](): void {
    if (this.#restMs > 0) setTimeout(() => this.#turn[Symbol.dispose](), this.#restMs).unref()
    else this.#turn[Symbol.dispose]()
  }
}
