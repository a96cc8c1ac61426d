import {
  closeSync,
  createWriteStream,
  fstatSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  type WriteStream,
} from 'node:fs'

/** The size at which a log file is rotated. */
export const MAX_LOG_BYTES = 10 * 1024 * 1024
/** The number of log files per process: the current one and the rotated ones, `NAME.log.1` and so on. */
export const MAX_LOG_FILES = 5
/** The minimum time between two attempts to open a file that could not be opened or written. */
const REOPEN_INTERVAL_MS = 1_000
/** The pino level of warnings in log lines from the platform's processes. */
const WARN_LEVEL = 40
const NEWLINE = 10

/**
 * A log file of bounded size. The supervisor writes its children's lines, so a child never notices a rotation. Lines
 * that are still queued reach the old file, because its descriptor follows the rename.
 */
export class LogFile {
  private stream: WriteStream | undefined
  private size = 0
  /** The number of lines that were lost and are not yet reported in the file. */
  private lost = 0
  private lastError = ''
  private failedAt = 0
  private readonly path: string
  private readonly maxBytes: number

  constructor(path: string, maxBytes = MAX_LOG_BYTES) {
    this.path = path
    this.maxBytes = maxBytes
    this.open()
  }

  /**
   * Appends one line. A full disk costs log lines, not the platform. A failed stream never recovers, so a later line
   * reopens the file, at most once a second, and reports how many lines were lost.
   */
  write(line: string): void {
    if (!this.stream && performance.now() - this.failedAt >= REOPEN_INTERVAL_MS) this.open()
    const text = `${line}\n`
    const bytes = Buffer.byteLength(text)
    if (this.stream && this.size > 0 && this.size + bytes > this.maxBytes) this.rotate()
    if (this.stream) this.append(text)
    else this.lost += 1
  }

  end(): void {
    this.stream?.end()
    this.stream = undefined
  }

  private rotate(): void {
    this.end()
    try {
      rmSync(`${this.path}.${MAX_LOG_FILES - 1}`, { force: true })
      for (let i = MAX_LOG_FILES - 2; i >= 0; i--) moveIfThere(this.numbered(i), this.numbered(i + 1))
    } catch {
      // If the rename fails, logging continues in the same file.
    }
    this.open()
  }

  private numbered = (i: number): string => (i === 0 ? this.path : `${this.path}.${i}`)

  private open(): void {
    let fd: number | undefined
    try {
      // Open now: a stream that opens its file later would find it renamed.
      fd = openSync(this.path, 'a+')
      this.size = fstatSync(fd).size
      const isMidLine = endsMidLine(fd, this.size)
      const stream = createWriteStream(this.path, { fd })
      stream.on('error', (err) => {
        if (this.stream === stream) this.fail(err)
      })
      this.stream = stream
      // The disk filled up, or the machine went down, in the middle of a line.
      if (isMidLine) this.append('\n', 0)
      this.reportLost()
    } catch (err) {
      if (fd !== undefined) closeSync(fd)
      this.fail(err)
    }
  }

  private fail(err: unknown): void {
    this.stream = undefined
    this.lastError = String((err as { code?: unknown }).code ?? err)
    this.failedAt = performance.now()
  }

  private append(text: string, lines = 1): void {
    this.size += Buffer.byteLength(text)
    this.stream?.write(text, (err) => {
      if (err) this.lost += lines
    })
  }

  private reportLost(): void {
    const { lost, lastError } = this
    if (lost === 0) return
    const msg = `${lost} log lines were lost here: the file could not be written (${lastError})`
    const text = `${JSON.stringify({ level: WARN_LEVEL, time: Date.now(), lost_lines: lost, msg })}\n`
    this.size += Buffer.byteLength(text)
    this.stream?.write(text, (err) => {
      if (!err) this.lost -= lost
    })
  }
}

/** Returns whether a file is not empty and its last byte is not a newline. */
function endsMidLine(fd: number, size: number): boolean {
  const last = Buffer.alloc(1)
  return size > 0 && readSync(fd, last, 0, 1, size - 1) === 1 && last[0] !== NEWLINE
}

function moveIfThere(from: string, to: string): void {
  try {
    renameSync(from, to)
  } catch (err) {
    if ((err as { code?: unknown }).code !== 'ENOENT') throw err
  }
}
