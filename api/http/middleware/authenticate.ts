import type { Services } from '../../services.ts'
import { authenticator, checkNodeHead } from '../auth.ts'
import type { AnyCaller, Auth } from '../caller.ts'
import { type ConnectionOwner, identify } from '../connections/connection-limits.ts'
import type { UnauthenticatedRequests } from '../connections/unauthenticated-requests.ts'
import type { Operation } from '../operation.ts'
import type { RequestContext } from '../request-context.ts'
import type { Middleware } from './middleware.ts'

/** Identifies the caller by the credential that the route declares. */
export function authenticate(
  { route, isOpen }: Operation,
  services: Services,
  unauthenticated: UnauthenticatedRequests,
): Middleware {
  const callerOf = authenticator(route, services, unauthenticated)
  const isPlatform = PLATFORM.has(route.auth)

  function admit(state: RequestContext, caller: AnyCaller): void {
    state.caller = caller
    if (caller && 'accountId' in caller) state.accountId = caller.accountId
    if (!isOpen || route.grant) identify(state.req.socket, ownerOf(state, caller, isPlatform))
  }

  return ({ state }, next) => {
    const caller = callerOf(state)
    if (caller instanceof Promise) {
      return caller.then((found) => {
        admit(state, found)
        return next()
      })
    }
    admit(state, caller)
    return next()
  }
}

const PLATFORM: ReadonlySet<Auth> = new Set(['operations-key', 'evaluator-token', 'node-signature'])

function ownerOf(
  { accountId, owner }: RequestContext,
  caller: AnyCaller,
  isPlatform: boolean,
): ConnectionOwner {
  const key = caller && 'nodeId' in caller ? `node/${caller.nodeId}` : (accountId ?? owner)
  return { key, isPlatform }
}

/** Checks the signed headers of a node's request before its body is read. */
export const checkSignedHead =
  (services: Services): Middleware =>
  async ({ state }, next) => {
    await checkNodeHead(state, services)
    return next()
  }
