import type { Logger } from '../../../platform/log.ts'
import type { BodyBudget } from '../body-budget.ts'
import type { RequestContext } from '../request-context.ts'
import { requestLog } from '../request-log.ts'
import type { Middleware } from './middleware.ts'

/** The log has this status where the client left before its answer. */
const CLIENT_GONE = 499

/** Gives the memory of the request's body back once the request has been answered, and logs its line. */
export function finishRequests(log: Logger, bodies: BodyBudget): Middleware {
  const logLine = requestLog(log)

  function finish(state: RequestContext): void {
    if (state.held) bodies.release(state.held)
    state.dropBody()
    const { req, response, requestId, path, operation, accountId, startedAt } = state
    logLine({
      requestId,
      method: req.method ?? '',
      path: operation?.loggedPath ?? path,
      operation: operation?.route.operationId,
      accountId,
      status: response.headersSent ? response.statusCode : CLIENT_GONE,
      ms: Math.round((performance.now() - startedAt) * 10) / 10,
    })
  }

  return ({ state }, next) =>
    next().then(() => {
      const { response } = state
      if (response.writableEnded || response.destroyed) finish(state)
      else response.once('close', () => finish(state))
    })
}
