import { HearthError } from './errors.ts'

/** A longer `Retry-After` is left to the caller, who may have something better to do. */
const MAX_WAIT_S = 60
const FIRST_DELAY_MS = 250
/** Answers of proxies that have lost the platform, and of a platform that is busy or on its way down. */
const PASSING = [502, 503, 504]

/**
 * Returns the milliseconds to wait before trying a failed request again; undefined when it must not, or need not, be
 * tried. A request that is not `repeatable` is tried again only when it was refused before anything happened.
 */
export function waitBefore(error: unknown, tried: number, repeatable: boolean): number | undefined {
  if (!(error instanceof HearthError)) return undefined
  const { status, code, retryAfter } = error
  if (retryAfter !== undefined && retryAfter > MAX_WAIT_S) return undefined
  if (status === 429)
    return code === 'rate_limited' && retryAfter !== undefined ? retryAfter * 1000 : undefined
  if (!repeatable || code === 'operator_kill_switch') return undefined
  if (status !== 0 && !PASSING.includes(status)) return undefined
  // Clients that failed together do not come back together.
  return retryAfter === undefined
    ? FIRST_DELAY_MS * 2 ** (tried - 1) * (0.5 + Math.random())
    : retryAfter * 1000
}
