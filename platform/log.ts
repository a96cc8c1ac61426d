import { type DestinationStream, type Logger, type LoggerOptions, pino } from 'pino'

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
  return buffered ? pino(options, blocksOfLines()) : pino(options)
}

const BLOCK_CHARACTERS = 32_768
const LONGEST_MS = 100

/** Lines gather as they are and are joined once: pino's own buffer measures all it holds anew at every line. */
function blocksOfLines(): DestinationStream & { flushSync(): void } {
  const out = pino.destination({ sync: false })
  let lines: string[] = []
  let characters = 0
  let timer: NodeJS.Timeout | undefined
  const pass = () => {
    clearTimeout(timer)
    timer = undefined
    if (lines.length > 0) out.write(lines.join(''))
    lines = []
    characters = 0
  }
  // Before pino's own listeners, which write out and close what has been passed on.
  process.prependListener('beforeExit', pass)
  process.prependListener('exit', pass)
  return {
    write(line) {
      lines.push(line)
      characters += line.length
      if (characters >= BLOCK_CHARACTERS) pass()
      else timer ??= setTimeout(pass, LONGEST_MS).unref()
    },
    flushSync() {
      pass()
      out.flushSync()
    },
  }
}
