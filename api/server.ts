import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { listenError, localUrl } from '../platform/listening.ts'
import type { Logger } from '../platform/log.ts'
import { createApp, type AppOptions } from './app.ts'
import { isLinkUpgrade, serveLinks } from './gateway/links/upgrade.ts'
import { answerMalformed, answerTimeout } from './http/bodies/malformed.ts'
import { boundConnections } from './http/connections/connection-limits.ts'
import { IdleConnections, type IdleLimits } from './http/connections/idle-connections.ts'
import type { OpenServices } from './open-services.ts'

type Listener = (req: IncomingMessage, res: ServerResponse) => void

const DRAIN_TIMEOUT_MS = 5_000
const IDLE_TIMEOUT_MS = 50
const HEADERS_TIMEOUT_MS = 30_000

export interface Gateway {
  readonly server: Server
  readonly services: OpenServices
  readonly baseUrl: string
  /** Stops accepting connections, gives requests in progress 5 s, then closes everything. */
  stop(): Promise<void>
}

export interface ListenOptions extends AppOptions {
  host: string
  port: number
  /** The address at which clients reach this gateway; by default the one it listens on. */
  baseUrl?: string | undefined
  idleLimits?: IdleLimits
  /** Builds the services once the address is known. */
  open: (baseUrl: string) => Promise<OpenServices>
}

/**
 * Starts listening, then builds the services; early requests wait until they are ready. Throws a `ConfigError` if it
 * can't listen on the host and port.
 */
export async function startGateway({
  host,
  port,
  baseUrl: given,
  idleLimits,
  open,
  ...options
}: ListenOptions): Promise<Gateway> {
  const server = createServer({
    noDelay: true,
    headersTimeout: HEADERS_TIMEOUT_MS,
    // Uploads of a gigabyte over a slow connection take a long time; bodies are limited by size instead.
    requestTimeout: 0,
    // The `requireHost` middleware rejects such requests in our usual error format.
    requireHostHeader: false,
    // Some clients offer an upgrade to HTTP/2 and would otherwise get no response.
    shouldUpgradeCallback: isLinkUpgrade,
  })
  let log: Logger | undefined
  server.on('clientError', (err, socket) => answerMalformed(err, socket, log))
  const connections = new IdleConnections(server, (response) => answerTimeout(response, log), idleLimits)
  const ready = Promise.withResolvers<Listener>()
  ready.promise.catch(() => {})
  const listenTo = (answer: Listener): void => {
    const listener: Listener = (req, res) => {
      connections.note(req.socket, res)
      answer(req, res)
    }
    // The `takeBody` middleware sends "100 Continue" itself, once it knows that it will accept the body.
    for (const event of ['request', 'checkContinue', 'checkExpectation'] as const) {
      server.removeAllListeners(event).on(event, listener)
    }
  }
  listenTo(
    (req, res) =>
      void ready.promise.then(
        (app) => app(req, res),
        () => res.destroy(),
      ),
  )

  server.listen(port, host)
  await once(server, 'listening').catch((err: unknown) => {
    throw listenError(err, { host, port })
  })
  const baseUrl = given ?? localUrl({ host, port: (server.address() as AddressInfo).port })
  try {
    const services = await open(baseUrl)
    log = services.log
    boundConnections(server, services.config)
    const app = createApp(services, options)
    serveLinks(server, { links: services.links, verify: (request) => services.nodes.verify(request) })
    server.on('upgrade', (req) => connections.forget(req.socket))
    ready.resolve(app)
    listenTo(app)
    return { server, services, baseUrl, stop: () => stop(server, services, connections) }
  } catch (err) {
    ready.reject(err)
    server.close()
    server.closeAllConnections()
    throw err
  }
}

async function stop(server: Server, services: OpenServices, connections: IdleConnections): Promise<void> {
  const closed = once(server, 'close')
  server.close()
  // A link counts as a connection, so it must close before the server can.
  services.links.retire()
  services.stopping.abort()
  // Clients would otherwise keep sending requests on keep-alive connections.
  server.prependListener('request', (_req: IncomingMessage, res: ServerResponse) =>
    res.setHeader('connection', 'close'),
  )
  const idle = setInterval(() => {
    server.closeIdleConnections()
    connections.closeUnused()
  }, IDLE_TIMEOUT_MS)
  await Promise.race([closed, sleep(DRAIN_TIMEOUT_MS, undefined, { ref: false })])
  clearInterval(idle)
  server.closeAllConnections()
  await services[Symbol.asyncDispose]()
}
