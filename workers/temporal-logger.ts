import type { Logger as TemporalLogger, LogLevel } from '@temporalio/worker'
import type { Logger } from '../platform/log.ts'

const LEVELS = { TRACE: 'trace', DEBUG: 'debug', INFO: 'debug', WARN: 'warn', ERROR: 'error' } as const

/** Said by the SDK of each worker for activities alone, which is what all of a node's are. */
const ORDINARY = 'No workflows registered'

/** The SDK's own lines in our log; what it calls information is detail to an operator. */
export function temporalLogger(log: Logger): TemporalLogger {
  const at =
    (level: LogLevel): TemporalLogger['info'] =>
    (message, meta) =>
      log[LEVELS[level]](meta ?? {}, message)
  return {
    log: (level, message, meta) => log[LEVELS[level]](meta ?? {}, message),
    trace: at('TRACE'),
    debug: at('DEBUG'),
    info: at('INFO'),
    warn: (message, meta) => log[message.startsWith(ORDINARY) ? 'debug' : 'warn'](meta ?? {}, message),
    error: at('ERROR'),
  }
}
