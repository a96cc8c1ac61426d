import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Config } from '../config.ts'
import { listenError } from '../listening.ts'
import type { ProcessKind } from './declarations.ts'
import { ExposedMetrics, type Metrics, NO_METRICS } from './metrics.ts'
import { watchProcess } from './process-metrics.ts'

/** Returns why the process can't serve; an empty list if it can. */
export type ReadinessCheck = () => Promise<readonly string[]>

/** The metrics and health of one process, for operators. */
export interface Monitoring extends AsyncDisposable {
  readonly metrics: Metrics
  /** The port of the listener; undefined if it is off. */
  readonly port: number | undefined
  /** Sets the check of `/readyz`; until then, the process is starting. */
  readyWhen(check: ReadinessCheck): void
  /** Adds a page in JSON. */
  serveJson(path: string, read: () => unknown): void
  /** Adds metrics of other programs to `/metrics`, in Prometheus' text format. Their names must differ from ours. */
  append(read: () => Promise<string>): void
}

/** Prometheus' text format. */
const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'
const TEXT_TYPE = 'text/plain; charset=utf-8'
/** A listener for a few scrapers and probes. */
const MAX_CONNECTIONS = 64
const REQUEST_TIMEOUT_MS = 5_000

const OFF: Monitoring = {
  metrics: NO_METRICS,
  port: undefined,
  readyWhen() {},
  serveJson() {},
  append() {},
  async [Symbol.asyncDispose]() {},
}

interface MonitoringOptions {
  /** Called when a scrape can't read some of its values. */
  onError: (err: unknown) => void
}

/**
 * Listens on `HEARTH_METRICS_PORT`, with its own server, so that tenants can't reach it. Serves `/metrics`, `/healthz`
 * (the process runs) and `/readyz` (it can do its work). Nothing is recorded or served if the port is 0. Throws a
 * `ConfigError` if it can't listen.
 */
export async function openMonitoring(
  {
    HEARTH_METRICS_HOST: host,
    HEARTH_METRICS_PORT: port,
  }: Pick<Config, 'HEARTH_METRICS_HOST' | 'HEARTH_METRICS_PORT'>,
  kind: ProcessKind,
  { onError }: MonitoringOptions,
): Promise<Monitoring> {
  if (port === 0) return OFF
  await using stack = new AsyncDisposableStack()
  const metrics = new ExposedMetrics(kind, onError)
  stack.use(watchProcess(metrics, kind))
  const pages = new Pages(metrics)
  const server = createServer(
    { requestTimeout: REQUEST_TIMEOUT_MS },
    (req, res) => void pages.answer(req, res),
  )
  server.maxConnections = MAX_CONNECTIONS
  server.listen(port, host)
  await once(server, 'listening').catch((err: unknown) => {
    throw listenError(err, { host, port }, { host: 'HEARTH_METRICS_HOST', port: 'HEARTH_METRICS_PORT' })
  })
  stack.defer(async () => {
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  })
  const opened = stack.move()
  return {
    metrics,
    port: (server.address() as AddressInfo).port,
    readyWhen: (check) => (pages.check = check),
    serveJson: (path, read) => void pages.json.set(path, read),
    append: (read) => void pages.appended.push(read),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  }
}

class Pages {
  check: ReadinessCheck = async () => ['the process is starting']
  readonly json = new Map<string, () => unknown>()
  readonly appended: (() => Promise<string>)[] = []
  readonly #metrics: ExposedMetrics
  #scrape: Promise<string> | undefined

  constructor(metrics: ExposedMetrics) {
    this.#metrics = metrics
  }

  async answer({ method = '', url = '' }: IncomingMessage, res: ServerResponse): Promise<void> {
    const send = (status: number, type: string, text: string) => {
      res.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' })
      res.end(method === 'HEAD' ? undefined : text)
    }
    try {
      if (method !== 'GET' && method !== 'HEAD') return send(405, TEXT_TYPE, 'use GET\n')
      const path = url.split('?', 1)[0] ?? ''
      const read = this.json.get(path)
      if (read) return send(200, 'application/json', JSON.stringify(await read()))
      switch (path) {
        case '/metrics':
          return send(200, METRICS_TYPE, await this.#text())
        case '/healthz':
          return send(200, TEXT_TYPE, 'ok\n')
        case '/readyz': {
          const reasons = await this.check()
          return send(reasons.length === 0 ? 200 : 503, TEXT_TYPE, `${reasons.join('\n') || 'ready'}\n`)
        }
        default:
          return send(404, TEXT_TYPE, 'there is only /metrics, /healthz and /readyz here\n')
      }
    } catch (err) {
      send(500, TEXT_TYPE, `${(err as Error).message}\n`)
    }
  }

  /** Concurrent scrapes share one reading, so that scrapers can't multiply its cost. */
  #text(): Promise<string> {
    return (this.#scrape ??= this.#read().finally(() => (this.#scrape = undefined)))
  }

  async #read(): Promise<string> {
    const texts = await Promise.all([this.#metrics.text(), ...this.appended.map((read) => read())])
    return texts.map((text) => (text === '' || text.endsWith('\n') ? text : `${text}\n`)).join('')
  }
}
