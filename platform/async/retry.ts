import { setTimeout as sleep } from 'node:timers/promises'

export interface Backoff {
  /** Milliseconds after the first failure. */
  first: number
  /** Milliseconds at most. */
  longest: number
}

/** Milliseconds to wait after a failure: twice as long for each one before it in a row. */
export const backoff = (failuresBefore: number, { first, longest }: Backoff): number =>
  Math.min(longest, first * 2 ** failuresBefore)

export interface RetryOptions extends Backoff {
  signal: AbortSignal
  /** Hears of each failure and of how many came before it; what it throws ends the retries. */
  onFailure: (err: unknown, failuresBefore: number) => void
}

/**
 * Runs some work again and again until it succeeds or the signal aborts. Unlike p-retry it returns a result that comes
 * after the signal has aborted, which may be a connection that the caller has to close, and tries again after a TypeError.
 */
export async function retryUntilAborted<T>(
  work: () => Promise<T>,
  { signal, onFailure, ...pauses }: RetryOptions,
): Promise<T> {
  for (let failures = 0; ; failures++) {
    signal.throwIfAborted()
    try {
      return await work()
    } catch (err) {
      onFailure(err, failures)
      await sleep(backoff(failures, pauses), undefined, { signal })
    }
  }
}
