import { type DestinationStream, type Logger as Pino, type LoggerOptions, pino } from 'pino'

/** Where events are written to (events.ts). Its type has no method of a level, so that every line is an event. */
export interface Logger extends Pick<Pino, 'isLevelEnabled' | 'levels'> {
  child(bindings: Readonly<Record<string, unknown>>): Logger
}

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

/** Half of what a pipe holds: one that is on its way when the process ends still goes whole. */
const BLOCK_BYTES = 32 * 1024
/** Of one character, in UTF-8. */
const MAX_BYTES = 3
const LONGEST_MS = 100

/** Lines become bytes as they come: as texts, in pieces, they would outlive young collections, and be copied by each. */
function blocksOfLines(): DestinationStream & { flushSync(): void } {
  const out = pino.destination({ sync: false, contentMode: 'buffer' })
  const block = Buffer.allocUnsafeSlow(BLOCK_BYTES)
  let length = 0
  let timer: NodeJS.Timeout | undefined
  const write = (bytes: Buffer) => {
    // In this mode it takes bytes, which its types do not know.
    out.write(bytes as unknown as string)
  }
  const pass = () => {
    clearTimeout(timer)
    timer = undefined
    if (length === 0) return
    write(Buffer.from(block.subarray(0, length)))
    length = 0
  }
  // Before pino's own listeners, which write out and close what has been passed on.
  process.prependListener('beforeExit', pass)
  process.prependListener('exit', pass)
  return {
    write(line) {
      const longest = line.length * MAX_BYTES
      if (length + longest > BLOCK_BYTES) pass()
      if (longest > BLOCK_BYTES) return write(Buffer.from(line))
      length += block.write(line, length)
      timer ??= setTimeout(pass, LONGEST_MS).unref()
    },
    flushSync() {
      pass()
      out.flushSync()
    },
  }
}
