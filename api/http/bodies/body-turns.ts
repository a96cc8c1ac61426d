import { setImmediate as nextTurn } from 'node:timers/promises'
import { temporaryError } from '../../../domain/errors.ts'
import { FairSemaphore, QueueFullError } from '../../../platform/async/fair-semaphore.ts'

const MAX_WAITING = 256
const ONE_AT_A_TIME = { most: 1, mostPerKey: 1, mostWaiting: MAX_WAITING } as const
const ONE_PER_ACCOUNT = { ...ONE_AT_A_TIME, most: Infinity } as const
/** Reading this many bytes takes at most 50 ms, so bodies up to it do not wait for larger ones. */
const SMALL_BYTES = 1024 * 1024
const RETRY_AFTER_S = 1
/** Shorter work needs no pause. */
const MIN_PAUSE_MS = 2

/**
 * Reads the large JSON bodies of all accounts one after another, with a separate queue for bodies of more than a
 * megabyte. Accounts take turns. After each body an account pauses for as long as reading it took, so its bodies use at
 * most half of this process's only thread.
 */
export class BodyTurns {
  readonly #accounts = new FairSemaphore(ONE_PER_ACCOUNT)
  readonly #small = new FairSemaphore(ONE_AT_A_TIME)
  readonly #large = new FairSemaphore(ONE_AT_A_TIME)

  /**
   * Waits for a turn, reads a body of `bytes` bytes and runs the rest of the request, whose first synchronous part
   * counts too. Other requests run between the steps of `reading`. Throws `rate_limited` if too many bodies are
   * waiting.
   */
  async run(
    { owner, bytes, signal }: { owner: string; bytes: number; signal: AbortSignal },
    reading: Iterator<void>,
    next: () => Promise<void>,
  ): Promise<void> {
    const accountTurn = await take(this.#accounts, owner, signal)
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
      // Not awaited: the turn ends as soon as the rest of the request waits for anything.
      return timed(next)
    } finally {
      if (tookMs < MIN_PAUSE_MS) accountTurn[Symbol.dispose]()
      else setTimeout(() => accountTurn[Symbol.dispose](), tookMs).unref()
    }
  }
}

async function take(turns: FairSemaphore, owner: string, signal: AbortSignal): Promise<Disposable> {
  try {
    return await turns.take(owner, signal)
  } catch (err) {
    if (!(err instanceof QueueFullError)) throw err
    throw temporaryError('rate_limited', 'too many large bodies are being read; try again', RETRY_AFTER_S)
  }
}
