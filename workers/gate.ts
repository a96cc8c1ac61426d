import { ConfigError, readConfig } from '../platform/config.ts'
import { createLogger } from '../platform/log.ts'
import { checkHealth } from './gate/check-health.ts'
import { emit } from './gate/events.ts'
import { openGate } from './gate/open-gate.ts'
import { aborted, stopSignal } from './process.ts'

/**
 * Runs the gate between nodes and Temporal until it is stopped; with `--check`, reports whether a gate on this machine
 * can serve.
 */
async function main(): Promise<void> {
  const config = readConfig()
  if (process.argv.includes('--check')) return checkHealth(config)
  const log = createLogger('gate', config.HEARTH_LOG_LEVEL)
  const { signal } = stopSignal()
  await using gate = await openGate(config, log, { signal })
  emit(log, 'gate.started', { port: gate.port, temporal: config.TEMPORAL_ADDRESS })
  await aborted(signal)
  emit(log, 'gate.stopped')
}

main().catch((err: unknown) => {
  if (err instanceof Error && err.name === 'AbortError') return
  const isPlain = err instanceof ConfigError
  process.stderr.write(`${isPlain ? err.message : ((err as Error).stack ?? String(err))}\n`)
  process.exitCode = isPlain ? 2 : 1
})
