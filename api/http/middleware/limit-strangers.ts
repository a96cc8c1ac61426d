import type { Operation } from '../operation.ts'
import type { Strangers } from '../strangers.ts'
import type { Middleware } from './middleware.ts'

/**
 * Counts unauthenticated requests by address: on open routes at once, and on routes whose URL is a credential only when
 * it turns out to be invalid.
 */
export const limitStrangers =
  ({ route }: Operation, strangers: Strangers): Middleware =>
  ({ state: { req } }, next) => {
    strangers.check(req)
    if (!route.internal) strangers.count(req)
    return next()
  }
