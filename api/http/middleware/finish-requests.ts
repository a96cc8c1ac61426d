import type { Logger } from '../../../platform/log.ts'
import type { RequestMetrics } from '../../gateway/metrics/request-metrics.ts'
import type { BodyBudget } from '../bodies/body-budget.ts'
import type { RequestContext } from '../request-context.ts'
import { requestLog } from '../request-log.ts'
import type { Middleware } from './middleware.ts'

/** The logged status for a client that disconnected before the response. */
const CLIENT_GONE = 499

/** Releases the memory of the body once the request has been answered, and logs and measures the request. */
export function finishRequests(
  log: Logger,
  bodies: BodyBudget,
  metrics: RequestMetrics | undefined,
): Middleware {
  const logLine = requestLog(log)

  function finish(state: RequestContext): void {
    if (state.held) bodies.release(state.held)
    if (state.kept) bodies.release(state.kept)
    const call = state.operation?.route.loggedCall?.(state.body)
    state.dropBody()
    const { req, response, requestId, path, operation, accountId, startedAt } = state
    const method = req.method ?? ''
    const status = response.headersSent ? response.statusCode : CLIENT_GONE
    const ms = performance.now() - startedAt
    metrics?.end({ method, operation, status, code: state.errorCode, accountId, seconds: ms / 1_000 })
    logLine({
      requestId,
      method,
      path: operation?.loggedPath ?? path,
      operation: operation?.route.operationId,
      accountId,
      call,
      status,
      code: state.errorCode,
      ms: Math.round(ms * 10) / 10,
    })
  }

  return async ({ state }, next) => {
    metrics?.begin()
    try {
      await next()
    } finally {
      const { response } = state
      if (response.writableEnded || response.destroyed) finish(state)
      else response.once('close', () => finish(state))
    }
  }
}
