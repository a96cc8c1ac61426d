import type { UnauthenticatedRequests } from '../connections/unauthenticated-requests.ts'
import type { Operation } from '../operation.ts'
import type { Middleware } from './middleware.ts'

/**
 * Counts unauthenticated requests by address. Open routes always count; a route whose URL is a credential counts only
 * if that credential is invalid.
 */
export const limitUnauthenticated =
  ({ route }: Operation, unauthenticated: UnauthenticatedRequests): Middleware =>
  ({ state: { req } }, next) => {
    unauthenticated.check(req)
    if (!route.internal) unauthenticated.count(req)
    return next()
  }
