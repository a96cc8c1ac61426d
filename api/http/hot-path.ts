import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from '../../platform/log.ts'
import type { Middleware } from './middleware/middleware.ts'
import type { Operation } from './operation.ts'
import { RequestContext } from './request-context.ts'

/** A route with its middlewares. */
export interface MountedRoute {
  operation: Operation
  middlewares: readonly Middleware[]
}

type Run = (ctx: { readonly state: RequestContext }) => Promise<void>

interface HotEntry {
  operation: Operation
  run: Run
  /** Returns the path parameters if the URL matches this route, or else `undefined`. */
  paramsIn: (url: string) => Readonly<Record<string, string>> | undefined
}

/**
 * Serves chats, inferences, invocations, agents and task polls without Koa and its router, with the same middlewares in
 * the same order. A gateway answers thousands of these a second. For each, Koa would add its context, a search through
 * a hundred patterns and a promise per middleware: in `bench/gateway` a chat costs 1.55 times a bare proxy's CPU
 * through Koa, and 1.16 to 1.32 times on this path. Every other request goes through Koa, and the function returns
 * false for it. These include unusual requests to the hot routes: other methods, a query, an encoded path, no Host.
 */
export function hotPath(
  routes: readonly MountedRoute[],
  around: readonly Middleware[],
  log: Logger,
): (req: IncomingMessage, res: ServerResponse) => boolean {
  const entries = routes
    .filter(({ operation }) => operation.route.isHot)
    .map(({ operation, middlewares }) => entryOf(operation, compose([...around, ...middlewares])))

  return (req, res) => {
    // Many MCP clients end the URL with a slash.
    if (req.url === '/mcp/') req.url = '/mcp'
    const { url = '', method } = req
    if (req.headers.host === undefined) return false
    for (const { operation, run, paramsIn } of entries) {
      const params = operation.route.method === method ? paramsIn(url) : undefined
      if (!params) continue
      const state = new RequestContext(req, res, log)
      state.operation = operation
      state.params = params
      void run({ state })
      return true
    }
    return false
  }
}

const NO_PARAMS = Object.freeze({})
const NOT_PLAIN = /[/?%]/

function entryOf(operation: Operation, run: Run): HotEntry {
  const [before = '', name, after = ''] = operation.path.split(/\{(\w+)\}/)
  if (name === undefined)
    return { operation, run, paramsIn: (url) => (url === before ? NO_PARAMS : undefined) }
  const paramsIn = (url: string) => {
    if (!url.startsWith(before) || !url.endsWith(after)) return undefined
    const value = url.slice(before.length, url.length - after.length)
    return value === '' || NOT_PLAIN.test(value) ? undefined : { [name]: value }
  }
  return { operation, run, paramsIn }
}

/** Works like koa-compose, but without a promise per middleware. */
const compose = (middlewares: readonly Middleware[]): Run =>
  middlewares.reduceRight<Run>(
    (next, middleware) => (ctx) => middleware(ctx, () => next(ctx)),
    async () => {},
  )
