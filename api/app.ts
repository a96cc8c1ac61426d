import type { IncomingMessage, ServerResponse } from 'node:http'
import Koa from 'koa'
import { GUIDE_FOLDER } from '../platform/guide.ts'
import type { Logger } from '../platform/log.ts'
import { emit } from './events.ts'
import { RequestMetrics } from './gateway/metrics/request-metrics.ts'
import type { Family } from './http/family.ts'
import { hotPath, type MountedRoute } from './http/hot-path.ts'
import { answerUnrouted, decodePath, enterRoute, requireHost } from './http/middleware/find-route.ts'
import { finishRequests } from './http/middleware/finish-requests.ts'
import type { Middleware } from './http/middleware/middleware.ts'
import { renderErrors } from './http/middleware/render-errors.ts'
import { type MountOptions, type Operation, operationsOf } from './http/operation.ts'
import { createLimits, pipelineOf } from './http/pipeline.ts'
import { RequestContext } from './http/request-context.ts'
import { createRouter } from './http/router.ts'
import { builder } from './routes/builder/family.ts'
import { consoleRoutes } from './routes/console/index.ts'
import { docsRoutes } from './routes/docs/index.ts'
import { guideRoutes } from './routes/guide/index.ts'
import { mcpFamily } from './routes/mcp/family.ts'
import { cohere, openai } from './routes/openai/family.ts'
import { orchestrator, root } from './routes/orchestrator/family.ts'
import type { Services } from './services.ts'

/** All API families, in the order of the OpenAPI document. */
export const FAMILIES: readonly Family[] = [builder, openai, cohere, orchestrator, mcpFamily(), root]

export interface AppOptions extends MountOptions {
  /** For tests of the HTTP shell, which bring their own routes. */
  families?: readonly Family[]
  /** For tests: another folder with a built guide. */
  guideFolder?: string
}

type Listener = (req: IncomingMessage, res: ServerResponse) => void

/** Builds the whole HTTP API as one request listener for `http.createServer`. */
export function createApp(
  services: Services,
  { families: given = FAMILIES, guideFolder = GUIDE_FOLDER, ...options }: AppOptions = {},
): Listener {
  const { config, log, metrics } = services
  const pages = [...docsRoutes(given), ...guideRoutes(guideFolder), ...consoleRoutes]
  const docs: Family = { name: 'root', prefix: '', errors: 'builder', routes: pages }
  const families = [...given, docs]
  const { served, off } = operationsOf(families, config, options)
  const limits = createLimits(services)
  const around = [
    finishRequests(log, limits.bodies, metrics.isOn ? new RequestMetrics(metrics) : undefined),
    renderErrors(families, limits.unauthenticated, services.room),
  ]
  const routes = served.map((operation) => ({
    operation,
    middlewares: pipelineOf(operation, services, limits),
  }))

  const listen = createShell({ routes, around, off, log }).callback()
  const serveHot = hotPath(routes, around, log)
  return (req, res) => {
    if (!serveHot(req, res)) void listen(req, res)
  }
}

interface ShellOptions {
  routes: readonly MountedRoute[]
  /** Middlewares that run for every request, including those that match no route. */
  around: readonly Middleware[]
  /** Routes of disabled features. */
  off: readonly Operation[]
  log: Logger
}

function createShell({ routes, around, off, log }: ShellOptions): Koa<RequestContext> {
  const entries = routes.map(({ operation, middlewares }) => ({
    name: operation.route.operationId,
    method: operation.route.method,
    path: operation.path,
    middlewares: [enterRoute(operation), ...middlewares],
  }))
  const offEntries = off.map(({ route, path }) => ({
    name: route.servedWith ? `${route.servedWith}=1` : `HEARTH_FEATURES=${route.preview}`,
    method: route.method,
    path,
    middlewares: [],
  }))

  const app = new Koa<RequestContext>()
  // Our middlewares handle every other error, so Koa only reports broken connections.
  app.on('error', (err) => emit(log, 'connection.lost', { err }))
  Object.defineProperty(app.context, 'path', PATH)
  app.use((ctx, next) => {
    // The `respond` middleware writes the response; see its comment for why.
    ctx.respond = false
    ctx.state = new RequestContext(ctx.req, ctx.res, log)
    return next()
  })
  for (const middleware of around) app.use(middleware)
  app.use(requireHost)
  app.use(decodePath([...entries, ...offEntries]))
  app.use(createRouter(entries).routes())
  app.use(answerUnrouted(createRouter(offEntries)))
  return app
}

/** The router matches `ctx.path`. Koa's own getter would parse the URL again, and throw for an invalid host. */
const PATH = {
  get(this: { state: RequestContext }): string {
    return this.state.routedPath
  },
}
