import type { Logger as TemporalLogger, LogLevel, LogMetadata } from '@temporalio/worker'
import type { Logger } from '../platform/log.ts'

const LEVELS = { TRACE: 'trace', DEBUG: 'debug', INFO: 'debug', WARN: 'warn', ERROR: 'error' } as const

/** Said by the SDK of each worker for activities alone, which is what all of a node's are. */
const ORDINARY = 'No workflows registered'

/** The SDK's own lines in our log; what it calls information is detail to an operator. */
export function temporalLogger(log: Logger): TemporalLogger {
  const at =
    (level: LogLevel): TemporalLogger['info'] =>
    (message, meta) =>
      log[LEVELS[level]](fieldsOf(meta), message)
  return {
    log: (level, message, meta) => log[LEVELS[level]](fieldsOf(meta), message),
    trace: at('TRACE'),
    debug: at('DEBUG'),
    info: at('INFO'),
    warn: (message, meta) => log[message.startsWith(ORDINARY) ? 'debug' : 'warn'](fieldsOf(meta), message),
    error: at('ERROR'),
  }
}

/** Errors under the name that our log writes out, and no token with which a task could be ended. */
function fieldsOf({ error, taskToken: _token, ...rest }: LogMetadata = {}): object {
  return error === undefined ? rest : { ...rest, err: error }
}
