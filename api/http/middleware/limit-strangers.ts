import type { Operation } from '../operation.ts'
import type { Strangers } from '../strangers.ts'
import type { Middleware } from './middleware.ts'

/** What is open to everybody counts at once; a URL that is a credential only when it turns out to be none. */
export const limitStrangers =
  ({ route }: Operation, strangers: Strangers): Middleware =>
  ({ state: { req } }, next) => {
    strangers.check(req)
    if (!route.internal) strangers.count(req)
    return next()
  }
