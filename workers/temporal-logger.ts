import { type Logger as TemporalLogger, type LogLevel, type LogMetadata, Runtime } from '@temporalio/worker'
import type { Logger } from '../platform/log.ts'
import { emit } from './events.ts'

const LEVELS = { TRACE: 'trace', DEBUG: 'debug', INFO: 'debug', WARN: 'warn', ERROR: 'error' } as const

/**
 * Expected warnings of the SDK. The first says that a worker has only activities, which is true for all workers of a
 * node. The second says that a worker could not report its shutdown, because the node was removed or the server is
 * stopping as well.
 */
const ORDINARY = ['No workflows registered', 'shutdown_worker rpc errored during worker shutdown']
const isOrdinary = (message: string): boolean => ORDINARY.some((start) => message.startsWith(start))

/**
 * Installs this process's SDK runtime, whose native part then logs its warnings and errors through our log. The runtime
 * keeps the process alive until it is disposed, even if it was never used.
 */
export function openTemporalRuntime(log: Logger): AsyncDisposable {
  const runtime = Runtime.install({
    logger: temporalLogger(log),
    telemetryOptions: { logging: { forward: {}, filter: { core: 'WARN', other: 'ERROR' } } },
    shutdownSignals: [],
  })
  return { [Symbol.asyncDispose]: () => runtime.shutdown() }
}

/** Adapts the SDK's logger to ours; the SDK's info messages are debug messages for an operator. */
export function temporalLogger(log: Logger): TemporalLogger {
  const tell: TemporalLogger['log'] = (level, message, meta) => {
    const isDetail = level === 'WARN' && isOrdinary(message)
    emit(log, 'temporal.log', fieldsOf(meta), { message, level: isDetail ? 'debug' : LEVELS[level] })
  }
  const at =
    (level: LogLevel): TemporalLogger['info'] =>
    (message, meta) =>
      tell(level, message, meta)
  return {
    log: tell,
    trace: at('TRACE'),
    debug: at('DEBUG'),
    info: at('INFO'),
    warn: at('WARN'),
    error: at('ERROR'),
  }
}

/** Moves an error to the field that our log serializes, and drops the task token, which could be used to end a task. */
function fieldsOf({ error, taskToken: _token, ...rest }: LogMetadata = {}): object {
  return error === undefined ? rest : { ...rest, err: error }
}
