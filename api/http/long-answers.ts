import { ApiError } from '../../domain/errors.ts'
import { FairTurns, LineFull } from '../../platform/fair-turns.ts'
import type { Outgoing } from './respond.ts'

/** Of how many accounts at once long answers are made; what waits holds no memory yet. */
const TURNS = { most: 64, mostPerKey: 1, mostWaiting: 256 } as const
const RETRY_AFTER_S = 1
/** What an account gets of long answers: each takes the gateway's one thread for milliseconds a megabyte. */
const BYTES_PER_MS = 8 * 1024
const SHORT_BYTES = 16 * 1024

/** Makes the long answers of an account one after another, with a rest after each by its length: others come in between. */
export class LongAnswers {
  readonly #turns = new FairTurns(TURNS)

  /** Waits for the account's turn to make an answer; throws `rate_limited` when too many wait already. */
  async inTurn(
    accountId: string,
    signal: AbortSignal,
    make: () => Promise<Outgoing | undefined>,
  ): Promise<Outgoing | undefined> {
    const turn = await this.#take(accountId, signal)
    let bytes = 0
    try {
      const outgoing = await make()
      if (typeof outgoing?.body === 'string') bytes = outgoing.body.length
      return outgoing
    } finally {
      if (bytes <= SHORT_BYTES) turn[Symbol.dispose]()
      else setTimeout(() => turn[Symbol.dispose](), bytes / BYTES_PER_MS).unref()
    }
  }

  async #take(accountId: string, signal: AbortSignal): Promise<Disposable> {
    try {
      return await this.#turns.take(accountId, signal)
    } catch (err) {
      if (!(err instanceof LineFull)) throw err
      throw new ApiError('rate_limited', 'too many long answers are asked for at once; try again', {
        details: { retry_after_s: RETRY_AFTER_S },
        headers: { 'retry-after': String(RETRY_AFTER_S) },
      })
    }
  }
}
