import { setImmediate as nextTurn } from 'node:timers/promises'
import { temporaryError } from '../../domain/errors.ts'
import { FairTurns, LineFull } from '../../platform/async/fair-turns.ts'

const TURNS = { most: 1, mostPerKey: 1, mostWaiting: 256 } as const
const RETRY_AFTER_S = 1
/** Work that is shorter needs no pause. */
const SHORT_MS = 2

/**
 * Has the large JSON bodies of all accounts read one after another, with a pause after each as long as its reading took,
 * so that reading them takes at most half of this process's only thread. The accounts take turns.
 */
export class BodyTurns {
  readonly #turns = new FairTurns(TURNS)

  /**
   * Waits for a turn, reads the body and calls the rest of the request, whose first synchronous part counts too. Other
   * requests run between the steps of `reading`. Throws `rate_limited` when too many bodies wait already.
   */
  async run(
    owner: string,
    signal: AbortSignal,
    reading: Iterator<void>,
    next: () => Promise<void>,
  ): Promise<void> {
    const turn = await this.#take(owner, signal)
    let tookMs = 0
    const timed = <T>(work: () => T): T => {
      const began = performance.now()
      try {
        return work()
      } finally {
        tookMs += performance.now() - began
      }
    }
    try {
      while (!timed(() => reading.next()).done) {
        await nextTurn()
        signal.throwIfAborted()
      }
      // The turn ends when the rest of the request first waits, so this is not awaited here.
      return timed(next)
    } finally {
      if (tookMs < SHORT_MS) turn[Symbol.dispose]()
      else setTimeout(() => turn[Symbol.dispose](), tookMs).unref()
    }
  }

  async #take(owner: string, signal: AbortSignal): Promise<Disposable> {
    try {
      return await this.#turns.take(owner, signal)
    } catch (err) {
      if (!(err instanceof LineFull)) throw err
      throw temporaryError('rate_limited', 'too many large bodies are being read; try again', RETRY_AFTER_S)
    }
  }
}
