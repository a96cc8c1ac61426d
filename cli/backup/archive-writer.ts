import { createHash } from 'node:crypto'
import { closeSync, constants, fsyncSync, openSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { zstdCompress } from 'node:zlib'
import { Header } from 'tar'
import { isRunning } from '../../platform/processes/process-identity.ts'
import { type BackupTrailer, ENTRY, type TableSummary } from './format.ts'

const BLOCK = 512
/** The bytes of text in one entry. A tar stores an entry's size before its bytes, so rows are cut into pieces. */
const PIECE_BYTES = 4 * 1024 * 1024

const compress = promisify(zstdCompress)

/** Writes an archive next to its final path, where it appears only once it is complete and on disk. */
export class ArchiveWriter implements AsyncDisposable {
  readonly #path: string
  readonly #temporary: string
  readonly #file: FileHandle
  readonly #hash = createHash('sha256')
  readonly #mtime = new Date()
  #bytes = 0

  private constructor(path: string, temporary: string, file: FileHandle) {
    this.#path = path
    this.#temporary = temporary
    this.#file = file
  }

  /** The number of bytes written so far. */
  get bytes(): number {
    return this.#bytes
  }

  /** Only the current user may read the file, because a backup contains the data of all accounts. */
  static async create(path: string): Promise<ArchiveWriter> {
    removeAbandoned(path)
    const temporary = `${path}.${process.pid}.part`
    rmSync(temporary, { force: true })
    return new ArchiveWriter(path, temporary, await open(temporary, 'wx', 0o600))
  }

  /** Writes an entry from memory. */
  async add(name: string, content: Uint8Array | object): Promise<void> {
    const bytes = content instanceof Uint8Array ? content : Buffer.from(JSON.stringify(content))
    await this.#begin(name, bytes.length)
    await this.#append(bytes)
    await this.#pad(bytes.length)
  }

  /** Writes an entry of a known size. Throws if the source has another size. */
  async addStream(name: string, size: number, source: AsyncIterable<Buffer>): Promise<{ sha256: string }> {
    await this.#begin(name, size)
    const digest = createHash('sha256')
    let written = 0
    for await (const chunk of source) {
      written += chunk.length
      if (written > size) break
      digest.update(chunk)
      await this.#append(chunk)
    }
    if (written !== size) throw new Error(`an object changed while it was copied (${name})`)
    await this.#pad(size)
    return { sha256: digest.digest('hex') }
  }

  /**
   * Writes text in compressed pieces under a folder. `produce` passes the text to its callback and returns the number of
   * rows.
   */
  async addPieces(
    folder: string,
    produce: (write: (text: Buffer) => Promise<void>) => Promise<number>,
  ): Promise<Omit<TableSummary, 'name'>> {
    const digest = createHash('sha256')
    let waiting: Buffer[] = []
    let waitingBytes = 0
    let bytes = 0
    let pieces = 0
    // Compressing one piece overlaps with reading the next.
    let writing = Promise.resolve()
    const flush = async () => {
      const text = Buffer.concat(waiting)
      waiting = []
      waitingBytes = 0
      await writing
      const name = `${folder}/${String(++pieces).padStart(6, '0')}.zst`
      writing = compress(text).then((packed) => this.add(name, packed))
      writing.catch(() => {})
    }
    const rows = await produce(async (text) => {
      digest.update(text)
      bytes += text.length
      waiting.push(text)
      waitingBytes += text.length
      if (waitingBytes >= PIECE_BYTES) await flush()
    })
    if (waitingBytes > 0) await flush()
    await writing
    return { rows, bytes, sha256: digest.digest('hex') }
  }

  /** Writes the last entry and moves the file to its path. */
  async finish(trailer: Omit<BackupTrailer, 'archive_sha256'>): Promise<void> {
    const digest = this.#hash.copy().update(JSON.stringify(trailer)).digest('hex')
    await this.add(ENTRY.trailer, { ...trailer, archive_sha256: digest })
    await this.#write(Buffer.alloc(2 * BLOCK))
    await this.#file.sync()
    await this.#file.close()
    renameSync(this.#temporary, this.#path)
    syncFolder(dirname(this.#path))
  }

  /** Removes the file immediately; for signal handlers. */
  discard(): void {
    rmSync(this.#temporary, { force: true })
  }

  /** Removes the file unless it is finished. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file.close()
    this.discard()
  }

  async #begin(name: string, size: number): Promise<void> {
    const header = new Header({ path: name, size, mode: 0o600, type: 'File', mtime: this.#mtime })
    header.encode()
    if (!header.block) throw new Error(`the name of an entry is too long: ${name}`)
    this.#hash.update(`${name}\0${size}\0`)
    await this.#write(header.block)
  }

  async #append(bytes: Uint8Array): Promise<void> {
    this.#hash.update(bytes)
    await this.#write(bytes)
  }

  async #pad(size: number): Promise<void> {
    const rest = size % BLOCK
    if (rest > 0) await this.#write(Buffer.alloc(BLOCK - rest))
  }

  async #write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      const { bytesWritten } = await this.#file.write(bytes, at)
      at += bytesWritten
    }
    this.#bytes += bytes.length
  }
}

/** Removes what killed backups left next to the path. */
function removeAbandoned(path: string): void {
  const prefix = `${basename(path)}.`
  for (const name of readdirSync(dirname(path))) {
    const pid = /^(\d+)\.part$/.exec(name.startsWith(prefix) ? name.slice(prefix.length) : '')?.[1]
    if (pid !== undefined && !isRunning(Number(pid))) rmSync(join(dirname(path), name), { force: true })
  }
}

function syncFolder(path: string): void {
  const folder = openSync(path, constants.O_RDONLY)
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}
