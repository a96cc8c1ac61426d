import { ApiError } from '../../domain/errors.ts'
import { FairTurns, LineFull } from '../../platform/fair-turns.ts'

/** Long answers take the gateway's one thread for milliseconds each; what waits holds no memory yet. */
const TURNS = { most: 2, mostPerKey: 1, mostWaiting: 64 } as const
const RETRY_AFTER_S = 1

/** An answer as long as this costs one request; each further `BYTES_PER_REQUEST` of it cost one more. */
const FREE_BYTES = 16 * 1024
const BYTES_PER_REQUEST = 4 * 1024

/** How many requests an answer of this length counts for beside its own, against the account's rate. */
export const chargeOf = (bytes: number): number =>
  Math.max(0, Math.ceil((bytes - FREE_BYTES) / BYTES_PER_REQUEST))

/** Has the long answers of an account made one after another, so that they do not hold up those of others. */
export class LongAnswers {
  readonly #turns = new FairTurns(TURNS)

  /** Waits for the account's turn and holds it until disposed; throws `rate_limited` when too many wait already. */
  async take(accountId: string, signal: AbortSignal): Promise<Disposable> {
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
