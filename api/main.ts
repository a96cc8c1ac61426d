import { setFlagsFromString } from 'node:v8'
import { ConfigError, readConfig } from '../platform/config.ts'
import { createLogger, type Logger } from '../platform/log.ts'
import { emit } from './events.ts'
import { openServices } from './open-services.ts'
import { type Gateway, startGateway } from './server.ts'

/** Ends the process when stopping takes longer: nothing may hold up a restart. */
const STOP_DEADLINE_MS = 9_000

/**
 * What a request leaves behind outlives young collections when the database is slow; collected by thirds of the heap rather
 * than by multiples of it, a gateway under load needs a third less (bench/gateway).
 */
setFlagsFromString('--heap-growing-percent=30')
/** Young collections are short here: starting and joining helper threads costs more than they save. */
setFlagsFromString('--no-parallel-scavenge')

/** Runs a gateway until it is told to stop. */
async function main(): Promise<void> {
  const config = readConfig()
  const log = createLogger('api', config.HEARTH_LOG_LEVEL, { buffered: true })
  const gateway = await startGateway({
    host: config.HEARTH_HOST,
    port: config.HEARTH_PORT,
    baseUrl: config.HEARTH_BASE_URL,
    open: (baseUrl) => openServices(config, baseUrl, log),
  })
  emit(log, 'gateway.started', { base_url: gateway.baseUrl, gateway_id: gateway.services.gateway.id })
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
    setTimeout(() => process.exit(), STOP_DEADLINE_MS).unref()
  }
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stop(signal))

  // Whatever state is left behind a fault that nobody caught, it is not one to serve from.
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
