import type { Logger } from '../../../platform/log.ts'
import type { BodyBudget } from '../bodies/body-budget.ts'
import type { RequestContext } from '../request-context.ts'
import { requestLog } from '../request-log.ts'
import type { Middleware } from './middleware.ts'

/** The logged status for a client that disconnected before the response. */
const CLIENT_GONE = 499

/** Releases the memory of the body once the request has been answered, and logs the request. */
export function finishRequests(log: Logger, bodies: BodyBudget): Middleware {
  const logLine = requestLog(log)

  function finish(state: RequestContext): void {
    if (state.held) bodies.release(state.held)
    if (state.kept) bodies.release(state.kept)
    const call = state.operation?.route.loggedCall?.(state.body)
    state.dropBody()
    const { req, response, requestId, path, operation, accountId, startedAt } = state
    logLine({
      requestId,
      method: req.method ?? '',
      path: operation?.loggedPath ?? path,
      operation: operation?.route.operationId,
      accountId,
      call,
      status: response.headersSent ? response.statusCode : CLIENT_GONE,
      code: state.errorCode,
      ms: Math.round((performance.now() - startedAt) * 10) / 10,
    })
  }

  return async ({ state }, next) => {
    try {
      await next()
    } finally {
      const { response } = state
      if (response.writableEnded || response.destroyed) finish(state)
      else response.once('close', () => finish(state))
    }
  }
}
