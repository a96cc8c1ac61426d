import { HearthError } from './errors.ts'

/** We leave a longer `Retry-After` to the caller, who may have something better to do. */
const MAX_RETRY_DELAY_S = 60
const FIRST_DELAY_MS = 250
/** Returned by proxies that can't reach the platform, and by a platform that is busy or shutting down. */
const PASSING = [502, 503, 504]

/**
 * Returns the milliseconds to wait before retrying a failed request; undefined when it must not be retried or a retry
 * is pointless. A request that isn't `repeatable` is retried only if it was rejected before anything happened.
 */
export function waitBefore(error: unknown, tried: number, repeatable: boolean): number | undefined {
  if (!(error instanceof HearthError)) return undefined
  const { status, code, retryAfter } = error
  if (retryAfter !== undefined && retryAfter > MAX_RETRY_DELAY_S) return undefined
  if (status === 429)
    return code === 'rate_limited' && retryAfter !== undefined ? retryAfter * 1000 : undefined
  if (!repeatable || code === 'operator_kill_switch') return undefined
  if (status !== 0 && !PASSING.includes(status)) return undefined
  // Add jitter, so that clients that failed together don't retry together.
  return retryAfter === undefined
    ? FIRST_DELAY_MS * 2 ** (tried - 1) * (0.5 + Math.random())
    : retryAfter * 1000
}
