import { retryUntilAborted } from '../platform/async/retry.ts'
import { ConfigError } from '../platform/config.ts'
import type { Logger } from '../platform/log.ts'
import { emit } from './events.ts'

/** Returns a controller that aborts when this process receives a stop signal. */
export function stopSignal(): AbortController {
  const controller = new AbortController()
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => controller.abort())
  return controller
}

const RETRY_DELAY_MS = { first: 100, longest: 2_000 }

interface RetryOptions {
  log: Logger
  signal: AbortSignal
  /** Returns whether a retry would fail again. */
  isFinal?: (err: unknown) => boolean
}

/** Retries until the work succeeds or the process is stopped; logs the dependency once every ten tries. */
export function retry<T>(
  dependency: string,
  attempt: () => Promise<T>,
  { log, signal, isFinal = () => false }: RetryOptions,
): Promise<T> {
  return retryUntilAborted(attempt, {
    ...RETRY_DELAY_MS,
    signal,
    onFailure(err, failuresBefore) {
      if (err instanceof ConfigError || isFinal(err)) throw err
      if (failuresBefore % 10 === 0) emit(log, 'dependency.awaited', { reason: String(err) }, { dependency })
    },
  })
}

/** Resolves once the signal has aborted. */
export const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
