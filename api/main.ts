import { setFlagsFromString } from 'node:v8'
import { ConfigError, readConfig } from '../platform/config.ts'
import { createLogger, type Logger } from '../platform/log.ts'
import { emit } from './events.ts'
import { openServices } from './open-services.ts'
import { type Gateway, startGateway } from './server.ts'
import { registerTools } from './tools/register.ts'

/** If stopping takes longer, the process exits, so it never delays a restart. */
const STOP_TIMEOUT_MS = 9_000

/**
 * With a slow database, garbage from requests survives young collections. Growing the heap by tenths rather than by
 * multiples saves a third of a loaded gateway's memory and costs a chat 1 % of CPU (bench/gateway).
 */
setFlagsFromString('--heap-growing-percent=10')
/** Young collections are short here, so starting helper threads would cost more than it saves. */
setFlagsFromString('--no-parallel-scavenge')

/** Runs a gateway until it is stopped. */
async function main(): Promise<void> {
  const config = readConfig()
  const log = createLogger('api', config.HEARTH_LOG_LEVEL, { buffered: true })
  const gateway = await startGateway({
    host: config.HEARTH_HOST,
    port: config.HEARTH_PORT,
    baseUrl: config.HEARTH_BASE_URL,
    async open(baseUrl) {
      const services = await openServices(config, baseUrl, log)
      await registerTools(services)
      return services
    },
  })
  emit(log, 'gateway.started', {
    base_url: gateway.baseUrl,
    gateway_id: gateway.services.gateway.id,
    memory: config.HEARTH_MEMORY ? 'on' : 'off',
  })
  stopOnSignals(gateway, log)
}

function stopOnSignals(gateway: Gateway, log: Logger): void {
  let stopping: Promise<void> | undefined
  const stop = (why: string): void => {
    emit(log, 'gateway.stopping', { why })
    stopping ??= gateway.stop().then(
      () => emit(log, 'gateway.stopped'),
      (err: unknown) => emit(log, 'gateway.stop_failed', { err }),
    )
    setTimeout(() => process.exit(), STOP_TIMEOUT_MS).unref()
  }
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stop(signal))

  // After an uncaught error the process is in an unknown state, so it must not serve requests.
  process.on('uncaughtException', (err) => {
    emit(log, 'gateway.crashed', { err })
    process.exitCode = 1
    stop('uncaught exception')
  })
}

main().catch((err: unknown) => {
  const log = createLogger('api', 'info')
  const isTold = err instanceof ConfigError
  if (isTold) emit(log, 'gateway.misconfigured', {}, { reason: err.message })
  else emit(log, 'gateway.start_failed', { err })
  process.exitCode = isTold ? 2 : 1
})
