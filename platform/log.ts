import { type DestinationStream, type Logger as Pino, type LoggerOptions, pino } from 'pino'

/** The destination of events (events.ts). The type has no method per level, so that every log line is an event. */
export interface Logger extends Pick<Pino, 'isLevelEnabled' | 'levels'> {
  child(bindings: Readonly<Record<string, unknown>>): Logger
}

/** Logs JSON lines to stdout; fields that may contain a secret are redacted wherever they appear. */
export function createLogger(
  name: string,
  level: string,
  /**
   * `buffered` is for processes that log thousands of lines a second: lines are written in whole blocks, after at most
   * 100 ms and at exit. In a process that does not buffer, `onLine` receives every line, redacted.
   */
  { buffered = false, onLine }: { buffered?: boolean; onLine?: (line: string) => void } = {},
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
        // These fields of database errors quote the row, which includes inputs and results.
        'err.detail',
        'err.where',
      ],
      censor: '***',
    },
  }
  if (onLine) return pino(options, teeLines(onLine))
  return buffered ? pino(options, blocksOfLines()) : pino(options)
}

/** Writes lines as pino does by default, and passes each to `onLine`. */
function teeLines(onLine: (line: string) => void): DestinationStream {
  const out = pino.destination({ fd: 1, sync: true })
  return {
    write(line) {
      out.write(line)
      onLine(line.trimEnd())
    },
  }
}

/** Half of a pipe's capacity, so that a block in progress at exit is still written completely. */
const BLOCK_BYTES = 32 * 1024
/** The largest UTF-8 size of one UTF-16 unit. */
const MAX_BYTES = 3
const MAX_DELAY_MS = 100

/** Encodes lines as they arrive. Strings would survive young collections and be copied by each of them. */
function blocksOfLines(): DestinationStream & { flushSync(): void } {
  const out = pino.destination({ sync: false, contentMode: 'buffer' })
  const block = Buffer.allocUnsafeSlow(BLOCK_BYTES)
  let length = 0
  let timer: NodeJS.Timeout | undefined
  const write = (bytes: Buffer) => {
    // In this mode pino accepts bytes, but its types don't say so.
    out.write(bytes as unknown as string)
  }
  const pass = () => {
    clearTimeout(timer)
    timer = undefined
    if (length === 0) return
    write(Buffer.from(block.subarray(0, length)))
    length = 0
  }
  // These listeners must run before pino's own, which flush and close its destination.
  process.prependListener('beforeExit', pass)
  process.prependListener('exit', pass)
  return {
    write(line) {
      const longest = line.length * MAX_BYTES
      if (length + longest > BLOCK_BYTES) pass()
      if (longest > BLOCK_BYTES) return write(Buffer.from(line))
      length += block.write(line, length)
      timer ??= setTimeout(pass, MAX_DELAY_MS).unref()
    },
    flushSync() {
      pass()
      out.flushSync()
    },
  }
}
