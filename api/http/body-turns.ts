import { setImmediate as nextTurn } from 'node:timers/promises'
import { temporaryError } from '../../domain/errors.ts'
import { FairTurns, LineFull } from '../../platform/async/fair-turns.ts'

const MAX_WAITING = 256
const ONE_AT_A_TIME = { most: 1, mostPerKey: 1, mostWaiting: MAX_WAITING } as const
const ONE_PER_ACCOUNT = { ...ONE_AT_A_TIME, most: Infinity } as const
/** Reading this many bytes takes at most 50 ms, so bodies up to it do not wait for larger ones. */
const SMALL_BYTES = 1024 * 1024
const RETRY_AFTER_S = 1
/** Work that is shorter needs no pause. */
const SHORT_MS = 2

/**
 * Has the large JSON bodies of all accounts read one after another, and those beyond a megabyte in a line of their own. The
 * accounts take turns, and the next body of an account waits as long as reading its last one took, so that its bodies
 * take at most half of this process's only thread.
 */
export class BodyTurns {
  readonly #accounts = new FairTurns(ONE_PER_ACCOUNT)
  readonly #small = new FairTurns(ONE_AT_A_TIME)
  readonly #large = new FairTurns(ONE_AT_A_TIME)

  /**
   * Waits for a turn, reads the body of `bytes` and calls the rest of the request, whose first synchronous part counts
   * too. Other requests run between the steps of `reading`. Throws `rate_limited` when too many bodies wait already.
   */
  async run(
    { owner, bytes, signal }: { owner: string; bytes: number; signal: AbortSignal },
    reading: Iterator<void>,
    next: () => Promise<void>,
  ): Promise<void> {
    const own = await take(this.#accounts, owner, signal)
    let tookMs = 0
    try {
      using _turn = await take(bytes > SMALL_BYTES ? this.#large : this.#small, owner, signal)
      const timed = <T>(work: () => T): T => {
        const began = performance.now()
        try {
          return work()
        } finally {
          tookMs += performance.now() - began
        }
      }
      while (!timed(() => reading.next()).done) {
        await nextTurn()
        signal.throwIfAborted()
      }
      // The turn ends when the rest of the request first waits, so this is not awaited here.
      return timed(next)
    } finally {
      if (tookMs < SHORT_MS) own[Symbol.dispose]()
      else setTimeout(() => own[Symbol.dispose](), tookMs).unref()
    }
  }
}

async function take(turns: FairTurns, owner: string, signal: AbortSignal): Promise<Disposable> {
  try {
    return await turns.take(owner, signal)
  } catch (err) {
    if (!(err instanceof LineFull)) throw err
    throw temporaryError('rate_limited', 'too many large bodies are being read; try again', RETRY_AFTER_S)
  }
}
