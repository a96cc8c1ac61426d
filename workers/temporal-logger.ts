import { type Logger as TemporalLogger, type LogLevel, type LogMetadata, Runtime } from '@temporalio/worker'
import type { Logger } from '../platform/log.ts'
import { emit } from './events.ts'

const LEVELS = { TRACE: 'trace', DEBUG: 'debug', INFO: 'debug', WARN: 'warn', ERROR: 'error' } as const

/**
 * What the SDK warns of that is as it should be: that a worker is for activities alone, which all of a node's are, and that
 * a worker which ends could not say so to the server, which no longer takes a removed node's word or ends as well.
 */
const ORDINARY = ['No workflows registered', 'shutdown_worker rpc errored during worker shutdown']
const isOrdinary = (message: string): boolean => ORDINARY.some((start) => message.startsWith(start))

/**
 * The SDK's runtime of this process, whose native part tells its warnings and errors through our log as well, instead of
 * printing them. It keeps the process until it is disposed of, also one that never came to use it.
 */
export function openTemporalRuntime(log: Logger): AsyncDisposable {
  const runtime = Runtime.install({
    logger: temporalLogger(log),
    telemetryOptions: { logging: { forward: {}, filter: { core: 'WARN', other: 'ERROR' } } },
    shutdownSignals: [],
  })
  return { [Symbol.asyncDispose]: () => runtime.shutdown() }
}

/** The SDK's own lines in our log; what it calls information is detail to an operator. */
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

/** Errors under the name that our log writes out, and no token with which a task could be ended. */
function fieldsOf({ error, taskToken: _token, ...rest }: LogMetadata = {}): object {
  return error === undefined ? rest : { ...rest, err: error }
}
