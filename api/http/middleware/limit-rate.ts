import type { RateLimiter } from '../rate-limit.ts'
import type { Middleware } from './middleware.ts'

/** Counts a request against its account's rate, and adds the rate limit headers. */
export const limitRate =
  (limiter: RateLimiter): Middleware =>
  ({ state: { accountId, head } }, next) => {
    if (accountId !== undefined) limiter.take(accountId, head)
    return next()
  }
