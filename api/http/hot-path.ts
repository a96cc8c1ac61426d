import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from '../../platform/log.ts'
import type { Middleware } from './middleware/middleware.ts'
import type { Operation } from './operation.ts'
import { RequestContext } from './request-context.ts'

/** A route with the middlewares of its requests. */
export interface MountedRoute {
  operation: Operation
  middlewares: readonly Middleware[]
}

type Run = (ctx: { readonly state: RequestContext }) => Promise<void>

interface HotEntry {
  operation: Operation
  run: Run
  /** The path before its parameter, or the whole path without one. */
  before: string
  after: string
  name: string | undefined
}

/**
 * Serves chats and inferences without Koa and its router, with the same middlewares in the same order. A gateway
 * answers thousands of them a second, and Koa would add to each its context, the search through a hundred patterns and a
 * promise per middleware: `bench/gateway` shows 1.55 of a bare proxy's CPU per chat through Koa, and 1.16 and 1.32 by
 * this path. Every other request goes through Koa, including unusual ones to these routes: other methods, a query, an
 * encoded path, no Host. For those the function returns false.
 */
export function hotPath(
  routes: readonly MountedRoute[],
  around: readonly Middleware[],
  log: Logger,
): (req: IncomingMessage, res: ServerResponse) => boolean {
  const entries = routes
    .filter(({ operation }) => operation.route.isHot)
    .map(({ operation, middlewares }) => entryOf(operation, compose([...around, ...middlewares])))
  const byPath = new Map(entries.filter(({ name }) => !name).map((entry) => [entry.before, entry]))
  const withParameter = entries.filter(({ name }) => name)

  return (req, res) => {
    const { url = '', method } = req
    const entry = byPath.get(url) ?? withParameter.find((other) => valueIn(other, url) !== undefined)
    if (!entry || entry.operation.route.method !== method || req.headers.host === undefined) return false
    const state = new RequestContext(req, res, log)
    state.operation = entry.operation
    if (entry.name) state.params = { [entry.name]: valueIn(entry, url) }
    void entry.run({ state })
    return true
  }
}

function entryOf(operation: Operation, run: Run): HotEntry {
  const [before = '', name, after = ''] = operation.path.split(/\{(\w+)\}/)
  return { operation, run, before, after, name }
}

const NOT_PLAIN = /[/?%]/

function valueIn({ before, after }: HotEntry, url: string): string | undefined {
  if (!url.startsWith(before) || !url.endsWith(after)) return undefined
  const value = url.slice(before.length, url.length - after.length)
  return value === '' || NOT_PLAIN.test(value) ? undefined : value
}

/** Works as koa-compose, without a promise per middleware. */
const compose = (middlewares: readonly Middleware[]): Run =>
  middlewares.reduceRight<Run>(
    (next, middleware) => (ctx) => middleware(ctx, () => next(ctx)),
    async () => {},
  )
