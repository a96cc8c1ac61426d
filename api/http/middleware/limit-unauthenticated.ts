import type { Operation } from '../operation.ts'
import type { UnauthenticatedRequests } from '../unauthenticated-requests.ts'
import type { Middleware } from './middleware.ts'

/**
 * Counts unauthenticated requests by address: on open routes at once, and on routes whose URL is a credential only when
 * it turns out to be invalid.
 */
export const limitUnauthenticated =
  ({ route }: Operation, unauthenticated: UnauthenticatedRequests): Middleware =>
  ({ state: { req } }, next) => {
    unauthenticated.check(req)
    if (!route.internal) unauthenticated.count(req)
    return next()
  }
