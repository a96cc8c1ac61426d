import type { RateLimiter } from '../rate-limit.ts'
import type { Middleware } from './middleware.ts'

/** Takes a request from what its account may send, and says in the head how much is left. */
export const limitRate =
  (limiter: RateLimiter): Middleware =>
  ({ state: { accountId, head } }, next) => {
    if (accountId !== undefined) limiter.take(accountId, head)
    return next()
  }
