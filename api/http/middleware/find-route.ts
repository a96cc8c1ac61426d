import type { RouterContext, RouterMiddleware } from '@koa/router'
import { ApiError } from '../../../domain/errors.ts'
import type { Operation } from '../operation.ts'
import type { RequestContext } from '../request-context.ts'
import { type ApiRouter, leadsToMalformed, routedPath, type RouterEntry } from '../router.ts'
import type { Middleware } from './middleware.ts'

type ApiMiddleware = RouterMiddleware<RequestContext>
type RouteMatch = NonNullable<RouterContext<RequestContext>['matched']>

/** Error responses quote at most this many characters of a path. */
const MAX_PATH = 200

export const requireHost: Middleware = ({ state: { req } }, next) => {
  if (req.headers.host !== undefined || req.httpVersion !== '1.1') return next()
  throw new ApiError('bad_request', 'the header Host is missing')
}

/** Decodes the path for the router. */
export const decodePath =
  (entries: readonly RouterEntry[]): Middleware =>
  ({ state }, next) => {
    try {
      state.routedPath = routedPath(state.path)
    } catch {
      if (!leadsToMalformed(entries, state.path)) throw notFound(state.path)
      throw new ApiError('bad_request', 'the path is not valid percent-encoded UTF-8')
    }
    return next()
  }

/** The first middleware of every route. */
export const enterRoute =
  (operation: Operation): ApiMiddleware =>
  ({ state, params, matched = [], routerPath }, next) => {
    // If the first path lacks the method, @koa/router continues with less specific paths.
    if (matched[0]?.path !== routerPath) throw methodNotAllowed(state, matched)
    state.operation = operation
    state.params = params
    return next()
  }

/**
 * Answers requests without a route. `off` has the routes of disabled features, keyed by the setting that enables them.
 */
export const answerUnrouted =
  (off: ApiRouter): ApiMiddleware =>
  async ({ state, matched = [] }) => {
    const { req, response, head, path, routedPath: routed } = state
    if (matched.length === 0) throw notFound(path, off.match(routed, 'GET').path[0]?.name)
    if (req.method !== 'OPTIONS') throw methodNotAllowed(state, matched)
    response.writeHead(204, [...head, 'allow', allowed(matched)]).end()
  }

function notFound(path: string, setting?: string): ApiError {
  const hint = setting
    ? `its feature is off; an operator can turn it on with ${setting}`
    : 'see /docs for the available routes'
  return new ApiError('not_found', `there is no ${path.slice(0, MAX_PATH)}; ${hint}`)
}

function methodNotAllowed({ path }: RequestContext, matched: RouteMatch): ApiError {
  const allow = allowed(matched)
  return new ApiError('method_not_allowed', `${path} takes ${allow}`, { headers: { allow } })
}

/** Returns the methods of the first path, in the order of their declaration. */
function allowed(matched: RouteMatch): string {
  const methods = matched.filter(({ path }) => path === matched[0]?.path).flatMap((layer) => layer.methods)
  const names = methods.filter((method) => method !== 'HEAD')
  if (methods.includes('HEAD')) names.push('HEAD')
  return [...names, 'OPTIONS'].join(', ')
}
