import { ofAccount } from '../../db/account-share.ts'
import { ApiError } from '../../domain/errors.ts'
import type { KillSwitchView } from '../gateway/caches/kill-switch.ts'
import type { Services } from '../services.ts'
import { BodyBudget } from './bodies/body-budget.ts'
import { BodyTurns } from './bodies/body-turns.ts'
import { UnauthenticatedRequests } from './connections/unauthenticated-requests.ts'
import { Idempotency } from './idempotency.ts'
import { passKillSwitch } from './kill-switch-gate.ts'
import type { LongResponses } from './long-responses.ts'
import { authenticate, checkSignedHead } from './middleware/authenticate.ts'
import { callHandler } from './middleware/call-handler.ts'
import type { Middleware } from './middleware/middleware.ts'
import { respond } from './middleware/respond.ts'
import { runInTransaction } from './middleware/run-in-transaction.ts'
import { takeBody } from './middleware/take-body.ts'
import { validateInput } from './middleware/validate-input.ts'
import type { Operation } from './operation.ts'
import { RateLimiter } from './rate-limit.ts'
import type { AnyRoute } from './route.ts'
const MIB = 1024 * 1024

/** The limits that all routes of this gateway share. */
export interface SharedLimits {
  readonly bodies: BodyBudget
  readonly bodyTurns: BodyTurns
  readonly unauthenticated: UnauthenticatedRequests
  readonly limiter: RateLimiter | undefined
  readonly idempotency: Idempotency
}

export function createLimits(services: Services): SharedLimits {
  const { config } = services
  const { HEARTH_RATE_LIMIT: perSecond, HEARTH_RATE_BURST: burst } = config
  return {
    bodies: new BodyBudget(config.HEARTH_BODY_MEMORY_MB * MIB),
    bodyTurns: new BodyTurns(),
    unauthenticated: new UnauthenticatedRequests(config),
    limiter: perSecond > 0 ? new RateLimiter({ perSecond, burst }) : undefined,
    idempotency: new Idempotency(services),
  }
}

/** Returns whether requests count against their account's rate limit. */
const isCounted = ({ auth, isFree = false }: AnyRoute): boolean =>
  (auth === 'api-key' || auth === 'cohort') && !isFree

/** Warm inference uses no connection from this pool, so don't make it pay for the count. */
const sharesDatabase = ({ route, family }: Operation): boolean =>
  (route.auth === 'api-key' || route.auth === 'cohort') &&
  (!route.isHot || route.sharesDatabase || family.name === 'mcp')

/** Returns a route's middlewares, in order. */
export function pipelineOf(
  operation: Operation,
  services: Services,
  { bodies, bodyTurns, unauthenticated, limiter, idempotency }: SharedLimits,
): Middleware[] {
  const { route, isOpen } = operation
  // A node's signature covers the body, so the body is read before the request is trusted.
  const isBodySigned = route.auth === 'node-signature' && !route.stream
  const body = takeBody(operation, { bodies, streamBytes: services.objects.putBytes })
  const caller = authenticate(operation, services, unauthenticated)

  const middlewares = [
    isOpen && limitUnauthenticated(operation, unauthenticated),
    ...(isBodySigned ? [checkSignedHead(services), body, caller] : [caller]),
    isCounted(route) && limiter && limitRate(limiter),
    !isBodySigned && body,
    sharesDatabase(operation) && shareDatabase,
    validateInput(route, bodies, bodyTurns),
    route.ifMatch && requireIfMatch,
    respond,
    ...(route.idempotent
      ? [runInTransaction(operation, services, idempotency)]
      : [
          route.admitsWork && stopAtKillSwitch(services.killSwitch),
          route.isLong && takeTurns(services.longAnswers),
          callHandler(operation, services),
        ]),
  ]
  return middlewares.filter((middleware) => typeof middleware === 'function')
}

/**
 * Counts unauthenticated requests by address. Open routes always count; a route whose URL is a credential counts only
 * if that credential is invalid.
 */
const limitUnauthenticated =
  ({ route }: Operation, unauthenticated: UnauthenticatedRequests): Middleware =>
  ({ state: { req } }, next) => {
    unauthenticated.check(req)
    if (!route.internal) unauthenticated.count(req)
    return next()
  }

/** Counts a request against its account's rate limit, and adds the rate limit headers. */
const limitRate =
  (limiter: RateLimiter): Middleware =>
  ({ state: { accountId, head } }, next) => {
    if (accountId !== undefined) limiter.take(accountId, head)
    return next()
  }

/** Counts a request's database connections for its account, which may only use a share of the pool. */
const shareDatabase: Middleware = ({ state: { accountId } }, next) =>
  accountId === undefined ? next() : ofAccount(accountId, next)

/** Rejects a conditional write without `If-Match`. */
const requireIfMatch: Middleware = ({ state: { req } }, next) => {
  if (req.headers['if-match'] !== undefined) return next()
  throw new ApiError('precondition_required', 'send If-Match with the ETag that you read')
}

/** Rejects new work while the kill switch is active. */
const stopAtKillSwitch =
  (killSwitch: KillSwitchView): Middleware =>
  (_ctx, next) => {
    const passing = passKillSwitch(killSwitch)
    return passing ? passing.then(next) : next()
  }

/**
 * Builds an account's long responses one after another. The next one starts when the client has read the previous one,
 * so clients that don't read hold the memory of only one response.
 */
const takeTurns =
  (longAnswers: LongResponses): Middleware =>
  async ({ state }, next) => {
    const turn = await longAnswers.take(state.accountId ?? '', state.signal)
    let bytes = 0
    try {
      await next()
      const body = state.outgoing?.body
      if (typeof body === 'string' || body instanceof Uint8Array) bytes = body.length
    } finally {
      turn.endWith(state.response, bytes)
    }
  }
