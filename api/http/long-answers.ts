import { tryLater } from '../../domain/errors.ts'
import { FairTurns, LineFull } from '../../platform/async/fair-turns.ts'
import type { Outgoing } from './outgoing.ts'

/** Of how many accounts at once long answers are made; what waits holds no memory yet. */
const TURNS = { most: 64, mostPerKey: 1, mostWaiting: 256 } as const
const RETRY_AFTER_S = 1
/** What an account gets of long answers: each takes the gateway's one thread for milliseconds a megabyte. */
const BYTES_PER_MS = 8 * 1024
const SHORT_BYTES = 16 * 1024

/** Makes the long answers of an account one after another, with a rest after each by its length: others come in between. */
export class LongAnswers {
  readonly #turns = new FairTurns(TURNS)

  /** Waits for the account's turn and holds it until disposed; throws `rate_limited` when too many wait already. */
  async take(accountId: string, signal: AbortSignal): Promise<LongAnswer> {
    try {
      return new LongAnswer(await this.#turns.take(accountId, signal))
    } catch (err) {
      if (!(err instanceof LineFull)) throw err
      throw tryLater('rate_limited', 'too many long answers are asked for at once; try again', RETRY_AFTER_S)
    }
  }
}

/** The turn of one answer: ends when disposed, or after the rest that its length calls for. */
class LongAnswer implements Disposable {
  readonly #turn: Disposable
  #restMs = 0

  constructor(turn: Disposable) {
    this.#turn = turn
  }

  restFor(outgoing: Outgoing | undefined): void {
    const bytes = typeof outgoing?.body === 'string' ? outgoing.body.length : 0
    if (bytes > SHORT_BYTES) this.#restMs = bytes / BYTES_PER_MS
  }

  [Symbol.dispose](): void {
    if (this.#restMs > 0) setTimeout(() => this.#turn[Symbol.dispose](), this.#restMs).unref()
    else this.#turn[Symbol.dispose]()
  }
}
