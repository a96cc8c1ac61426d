import { ServerCredentials } from '@grpc/grpc-js'
import { CacheWatch } from '../../db/cache-watch.ts'
import { connectOnce, openDatabase } from '../../db/database.ts'
import { type Config, ConfigError, required } from '../../platform/config.ts'
import { readPem } from '../../platform/config/pem.ts'
import type { Logger } from '../../platform/log.ts'
import { NodeCredentials } from '../../platform/node-credentials.ts'
import { retry } from '../process.ts'
import { DispatchRecorder } from './dispatch.ts'
import { GateServer } from './gate-server.ts'
import { NodePermissionCache } from './permission-cache.ts'
import { Upstream } from './upstream.ts'

const DATABASE_CONNECTIONS = 4
/** A hand-over waits until it is recorded, so a failure to get a connection must be reported quickly. */
const CONNECT_TIMEOUT_MS = 2_000

/** A listening gate. */
export interface OpenGate extends AsyncDisposable {
  readonly port: number
}

/** Waits for PostgreSQL and its tables, which gateways and workers create; Temporal may start later. */
export async function openGate(
  config: Config,
  log: Logger,
  { signal, holdMs }: { signal: AbortSignal; holdMs?: number },
): Promise<OpenGate> {
  const credentials = new NodeCredentials(config.HEARTH_ENCRYPTION_KEYS)
  const tls = tlsToNodes(config)
  await using stack = new AsyncDisposableStack()
  const url = required(config, 'DATABASE_URL')
  const db = openDatabase(url, { max: DATABASE_CONNECTIONS, waitMs: CONNECT_TIMEOUT_MS })
  stack.defer(() => db.destroy())
  const upstream = new Upstream(config)
  stack.defer(() => upstream.close())
  await retry('PostgreSQL', () => connectOnce(db), { log, signal })
  const watch = stack.use(new CacheWatch(db, url, log))
  const permissions = new NodePermissionCache(db, watch, log)
  await retry('the tables', () => watch.start(), { log, signal })

  const handOvers = new DispatchRecorder({ db, upstream, log })
  const server = new GateServer({ upstream, credentials, permissions, handOvers, log, holdMs })
  stack.defer(() => server.close())
  const { HEARTH_GATE_HOST: host, HEARTH_GATE_PORT: wanted } = config
  const address = `${host.includes(':') ? `[${host}]` : host}:${wanted}`
  const port = await server.listen(address, tls).catch((cause: Error) => {
    throw new ConfigError(
      `HEARTH_GATE_HOST, HEARTH_GATE_PORT: cannot listen on ${address} (${cause.message}).`,
      { cause },
    )
  })
  const opened = stack.move()
  return { port, [Symbol.asyncDispose]: () => opened.disposeAsync() }
}

function tlsToNodes({ HEARTH_GATE_TLS_CERT: cert, HEARTH_GATE_TLS_KEY: key }: Config): ServerCredentials {
  if (!cert && !key) return ServerCredentials.createInsecure()
  if (!cert || !key) {
    throw new ConfigError(
      'HEARTH_GATE_TLS_CERT and HEARTH_GATE_TLS_KEY belong together: set both, or neither.',
    )
  }
  const pair = {
    cert_chain: readPem('HEARTH_GATE_TLS_CERT', cert),
    private_key: readPem('HEARTH_GATE_TLS_KEY', key),
  }
  return ServerCredentials.createSsl(null, [pair])
}
