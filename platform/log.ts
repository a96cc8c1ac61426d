import { type DestinationStream, type Logger as Pino, type LoggerOptions, pino } from 'pino'

/** The destination of events (events.ts). Its type has no method per level, so that every line is an event. */
export interface Logger extends Pick<Pino, 'isLevelEnabled' | 'levels'> {
  child(bindings: Readonly<Record<string, unknown>>): Logger
}

/** Logs JSON lines to stdout; fields that may contain a secret are redacted wherever they appear. */
export function createLogger(
  name: string,
  level: string,
  /**
   * `buffered` is for processes that log thousands of lines a second: lines are written in whole blocks, at the latest
   * after 100 ms and at exit. `onLine` gets every line, redacted, of a process that does not buffer.
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
        // Fields of database errors that quote the row, and with it inputs and results.
        'err.detail',
        'err.where',
      ],
      censor: '***',
    },
  }
  if (onLine) return pino(options, told(onLine))
  return buffered ? pino(options, blocksOfLines()) : pino(options)
}

/** Writes lines as pino does by itself, and tells somebody each of them. */
function told(onLine: (line: string) => void): DestinationStream {
  const out = pino.destination({ fd: 1, sync: true })
  return {
    write(line) {
      out.write(line)
      onLine(line.trimEnd())
    },
  }
}

/** Half of a pipe's capacity, so that a block in progress at exit is still written whole. */
const BLOCK_BYTES = 32 * 1024
/** The largest UTF-8 size of one UTF-16 unit. */
const MAX_BYTES = 3
const MAX_DELAY_MS = 100

/** Lines are encoded as they arrive. As strings they would survive young collections and be copied by each. */
function blocksOfLines(): DestinationStream & { flushSync(): void } {
  const out = pino.destination({ sync: false, contentMode: 'buffer' })
  const block = Buffer.allocUnsafeSlow(BLOCK_BYTES)
  let length = 0
  let timer: NodeJS.Timeout | undefined
  const write = (bytes: Buffer) => {
    // In this mode pino accepts bytes, which its types lack.
    out.write(bytes as unknown as string)
  }
  const pass = () => {
    clearTimeout(timer)
    timer = undefined
    if (length === 0) return
    write(Buffer.from(block.subarray(0, length)))
    length = 0
  }
  // The listeners precede pino's own, which flush and close its destination.
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
