import { type Logger, type LoggerOptions, pino } from 'pino'

export type { Logger } from 'pino'

/** JSON lines on stdout; what could carry a secret is cut out wherever it appears. */
export function createLogger(
  name: string,
  level: string,
  /** For processes that write thousands of lines a second: whole blocks, at the latest after 100 ms and at exit. */
  { buffered = false }: { buffered?: boolean } = {},
): Logger {
  const options: LoggerOptions = {
    name,
    level,
    base: null,
    redact: {
      paths: [
        'authorization',
        '*.authorization',
        '*["x-api-key"]',
        '*.api_key',
        '*.secret',
        '*.token',
        '*.signed_url',
        // Of database errors: they quote the row, and with it inputs and results.
        'err.detail',
        'err.where',
      ],
      censor: '***',
    },
  }
  if (!buffered) return pino(options)
  return pino(
    options,
    pino.destination({ sync: false, minLength: 32_768, maxWrite: 65_536, periodicFlush: 100 }),
  )
}
