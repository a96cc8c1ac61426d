import { setTimeout as sleep } from 'node:timers/promises'

export interface Backoff {
  /** Milliseconds after the first failure. */
  first: number
  /** The longest pause in milliseconds. */
  longest: number
}

/** Returns the pause in milliseconds after a failure, doubled for each consecutive failure before it. */
export const backoff = (failuresBefore: number, { first, longest }: Backoff): number =>
  Math.min(longest, first * 2 ** failuresBefore)

export interface RetryOptions extends Backoff {
  signal: AbortSignal
  /** Called with each failure and the number of failures before it; throwing ends the retries. */
  onFailure: (err: unknown, failuresBefore: number) => void
}

/**
 * Retries work until it succeeds or the signal aborts. Unlike p-retry, it returns a result that arrives after the
 * abort, which may be a connection that the caller must close, and it also retries after a TypeError.
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
