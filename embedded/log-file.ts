import {
  closeSync,
  createWriteStream,
  fstatSync,
  openSync,
  renameSync,
  rmSync,
  type WriteStream,
} from 'node:fs'

/** The size at which a log file is rotated. */
export const MAX_LOG_BYTES = 10 * 1024 * 1024
/** How many files each process has: the current one and those before it, as `NAME.log.1` and so on. */
export const MAX_LOG_FILES = 5

/**
 * A log file of bounded size. The supervisor writes the lines of its children, so a child never notices a rotation, and
 * lines that wait to be written still reach the old file: its descriptor follows the rename.
 */
export class LogFile {
  private stream: WriteStream | undefined
  private size = 0
  private readonly path: string
  private readonly maxBytes: number

  constructor(path: string, maxBytes = MAX_LOG_BYTES) {
    this.path = path
    this.maxBytes = maxBytes
    this.open()
  }

  /** Appends one line; a full disk costs log lines, not the platform. */
  write(line: string): void {
    const text = `${line}\n`
    const bytes = Buffer.byteLength(text)
    if (this.size > 0 && this.size + bytes > this.maxBytes) this.rotate()
    this.size += bytes
    this.stream?.write(text)
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
      // Without the rename the lines continue in the same file.
    }
    this.open()
  }

  private numbered = (i: number): string => (i === 0 ? this.path : `${this.path}.${i}`)

  private open(): void {
    let fd: number | undefined
    try {
      // Opened at once: a stream that opens its file later would find it renamed.
      fd = openSync(this.path, 'a')
      this.size = fstatSync(fd).size
      this.stream = createWriteStream(this.path, { fd })
      this.stream.on('error', () => {})
    } catch {
      if (fd !== undefined) closeSync(fd)
      this.stream = undefined
      this.size = 0
    }
  }
}

function moveIfThere(from: string, to: string): void {
  try {
    renameSync(from, to)
  } catch (err) {
    if ((err as { code?: unknown }).code !== 'ENOENT') throw err
  }
}
