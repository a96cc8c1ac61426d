import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { zstdDecompress } from 'node:zlib'
import { Header, Parser, type ReadEntry } from 'tar'
import { reasonOf } from '../../platform/reason.ts'
import { CliError } from '../cli-error.ts'
import {
  type BackupHeader,
  type BackupTrailer,
  ENTRY,
  FORMAT,
  FORMAT_VERSION,
  type ObjectEntry,
  type Sequences,
  type TableSummary,
} from './format.ts'

/** The largest entry that is read into memory. Pieces of text are far smaller. */
const MAX_ENTRY_BYTES = 512 * 1024 * 1024
const BLOCK = 512

const decompress = promisify(zstdDecompress)

/** Receives the content of a backup in the order of the archive. */
export interface ArchiveVisitor {
  startTable?(name: string): void
  text?(text: Buffer): Promise<void>
  /** Returns the number of rows that were stored; undefined if none were. */
  endTable?(): Promise<number | undefined>
  sequences?(sequences: Sequences): void
  /** An object of a backup that has only the list. */
  listed?(object: ObjectEntry): Promise<void>
  /** An object with its bytes. */
  object?(object: ObjectEntry, body: Readable): Promise<void>
}

/** Reads only the first entry. Throws if the file is not a backup that this version can read. */
export async function readHeader(path: string): Promise<BackupHeader> {
  await using file = await open(path).catch((err: unknown) => {
    throw new CliError(`${path} cannot be read: ${reasonOf(err)}`)
  })
  const block = Buffer.alloc(BLOCK)
  const { bytesRead } = await file.read(block, 0, BLOCK, 0)
  const { path: name, size = 0, cksumValid } = new Header(block)
  if (bytesRead < BLOCK || !cksumValid || name !== ENTRY.header || size > MAX_ENTRY_BYTES)
    throw new CliError(`${path} is not a backup that \`hearth backup\` wrote.`)
  const text = Buffer.alloc(size)
  await file.read(text, 0, size, BLOCK)
  return parseHeader(path, text)
}

function parseHeader(path: string, text: Buffer): BackupHeader {
  const header = parse<BackupHeader>(path, text)
  if (header.format !== FORMAT) throw new CliError(`${path} is not a backup of Hearth.`)
  if (header.format_version > FORMAT_VERSION) {
    throw new CliError(
      `${path} was written by Hearth ${header.hearth_version} in a newer format (${header.format_version}). Restore it with that version or a newer one.`,
    )
  }
  return header
}

function parse<T>(path: string, text: Buffer): T {
  try {
    return JSON.parse(text.toString()) as T
  } catch (cause) {
    throw damaged(path, cause)
  }
}

const damaged = (path: string, cause: unknown): CliError =>
  cause instanceof CliError ? cause : new CliError(`${path} is damaged: ${reasonOf(cause)}`)

/** Reads a whole backup and checks all digests. A visitor may throw to stop. Returns the last entry. */
export async function readArchive(path: string, visitor: ArchiveVisitor = {}): Promise<BackupTrailer> {
  const reader = new ArchiveReader(path, visitor)
  const { promise: finished, resolve, reject } = Promise.withResolvers<void>()
  const source = createReadStream(path, { highWaterMark: 1024 * 1024 })
  const parser = new Parser({ strict: true })
  // The parser emits the next entry only once this one has been read.
  let visited = Promise.resolve()
  parser.on('entry', (entry: ReadEntry) => {
    visited = visited.then(() => reader.read(entry))
    visited.catch(reject)
  })
  parser.on('end', () => void visited.then(resolve, reject))
  parser.on('error', (err: unknown) => reject(damaged(path, err)))
  source.on('error', reject)
  source.pipe(parser as unknown as NodeJS.WritableStream)
  try {
    await finished
  } finally {
    source.destroy()
  }
  return reader.finish()
}

class ArchiveReader {
  readonly #path: string
  readonly #visitor: ArchiveVisitor
  readonly #hash = createHash('sha256')
  readonly #tables: TableSummary[] = []
  readonly #objects = { count: 0, bytes: 0 }
  #table: { name: string; bytes: number; digest: ReturnType<typeof createHash> } | undefined
  #object: ObjectEntry | undefined
  #trailer: BackupTrailer | undefined

  constructor(path: string, visitor: ArchiveVisitor) {
    this.#path = path
    this.#visitor = visitor
  }

  async read(entry: ReadEntry): Promise<void> {
    const { path: name, size } = entry
    if (name === ENTRY.trailer) {
      const trailer = parse<BackupTrailer>(this.#path, await buffer(Readable.from(entry)))
      const { archive_sha256: digest, ...summary } = trailer
      if (digest !== this.#hash.update(JSON.stringify(summary)).digest('hex'))
        throw this.#damaged('its digest differs')
      this.#trailer = trailer
      return
    }
    if (this.#trailer) throw this.#damaged(`${name} follows the last entry`)
    this.#hash.update(`${name}\0${size}\0`)
    if (name.startsWith(ENTRY.object) && !name.endsWith('.json')) return this.#readObject(entry)
    if (size > MAX_ENTRY_BYTES) throw this.#damaged(`${name} is too large`)
    const bytes = await buffer(Readable.from(entry))
    this.#hash.update(bytes)
    if (name.startsWith(ENTRY.table)) return this.#readTable(name, bytes)
    if (name.startsWith(ENTRY.listing)) return this.#readListing(bytes)
    if (name.startsWith(ENTRY.object)) this.#object = parse<ObjectEntry>(this.#path, bytes)
    if (name === ENTRY.sequences) {
      await this.#endTable()
      this.#visitor.sequences?.(parse<Sequences>(this.#path, bytes))
    }
  }

  /** Compares what was read with what the backup says about itself. */
  finish(): BackupTrailer {
    const trailer = this.#trailer
    if (!trailer) throw this.#damaged('it is incomplete')
    for (const table of trailer.tables) {
      const read = this.#tables.find(({ name }) => name === table.name)
      // A table without rows has no entry.
      if (table.bytes === 0 && !read) continue
      if (read?.sha256 !== table.sha256 || (read.rows >= 0 && read.rows !== table.rows))
        throw this.#damaged(`the rows of ${table.name} are not those of the backup`)
    }
    if (trailer.objects.count !== this.#objects.count) throw this.#damaged('objects are missing')
    return trailer
  }

  async #readTable(entryName: string, packed: Buffer): Promise<void> {
    const name = entryName.slice(ENTRY.table.length).split('/')[0] ?? ''
    if (this.#table?.name !== name) {
      await this.#endTable()
      this.#table = { name, bytes: 0, digest: createHash('sha256') }
      this.#visitor.startTable?.(name)
    }
    const text = await this.#unpack(packed)
    this.#table.digest.update(text)
    this.#table.bytes += text.length
    await this.#visitor.text?.(text)
  }

  async #endTable(): Promise<void> {
    if (!this.#table) return
    const { name, bytes, digest } = this.#table
    this.#table = undefined
    const rows = (await this.#visitor.endTable?.()) ?? -1
    this.#tables.push({ name, rows, bytes, sha256: digest.digest('hex') })
  }

  async #readListing(packed: Buffer): Promise<void> {
    const lines = (await this.#unpack(packed)).toString().split('\n').filter(Boolean)
    for (const line of lines) {
      const object = parse<ObjectEntry>(this.#path, Buffer.from(line))
      this.#count(object)
      await this.#visitor.listed?.(object)
    }
  }

  async #readObject(entry: ReadEntry): Promise<void> {
    const object = this.#object
    if (object?.size_bytes !== entry.size) throw this.#damaged(`${entry.path} has no description`)
    this.#object = undefined
    this.#count(object)
    const hash = this.#hash
    const body = Readable.from(
      (async function* () {
        for await (const chunk of entry as AsyncIterable<Buffer>) {
          hash.update(chunk)
          yield chunk
        }
      })(),
      { objectMode: false },
    )
    await this.#visitor.object?.(object, body)
    // Skips what the visitor did not read.
    if (!body.readableEnded) for await (const _chunk of body);
  }

  #count({ size_bytes: bytes }: ObjectEntry): void {
    this.#objects.count += 1
    this.#objects.bytes += bytes
  }

  async #unpack(packed: Buffer): Promise<Buffer> {
    try {
      return await decompress(packed, { maxOutputLength: MAX_ENTRY_BYTES })
    } catch (cause) {
      throw damaged(this.#path, cause)
    }
  }

  #damaged(why: string): CliError {
    return new CliError(`${this.#path} is damaged: ${why}.`)
  }
}
