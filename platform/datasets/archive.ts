import { createReadStream, createWriteStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { Parser, type ReadEntry } from 'tar'
import { openPromise as openZip } from 'yauzl'
import { DatasetRefused, quoted } from './profile.ts'

/** Limits on an archive's content: enough for real data, too little for a decompression bomb. */
const MAX_ENTRIES = 10_000
const MAX_BYTES = 64 * 1024 ** 3
/** Real tables rarely compress better than this; a bomb compresses a thousandfold. Small archives are harmless. */
const MAX_RATIO = 200
const ALWAYS_FINE_BYTES = 256 * 1024 ** 2

/** One file of an archive, readable until its visit ends. */
export interface ArchiveFile {
  /** The name in the archive, for display and comparison only; it must never be opened as a path. */
  name: string
  sizeBytes: number
  saveTo(path: string): Promise<void>
}

type FileVisitor = (file: ArchiveFile) => Promise<void>

/** Visits the files of a zip or a (gzipped) tar in order. Names, kinds and sizes are checked before anything is read. */
export async function walkArchive(path: string, visit: FileVisitor): Promise<void> {
  const { head, sizeBytes } = await readHead(path)
  const guard = new ArchiveGuard(sizeBytes)
  if (head.subarray(0, 2).toString('latin1') === 'PK') return walkZip(path, guard, visit)
  const isGzip = head[0] === 0x1f && head[1] === 0x8b
  const isTar = head.subarray(257, 262).toString('latin1') === 'ustar'
  if (isGzip || isTar) return walkTar(path, guard, visit)
  throw new DatasetRefused('the file is neither a zip nor a tar.gz archive')
}

async function readHead(path: string) {
  await using file = await open(path)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(512), 0, 512, 0)
  return { head: buffer.subarray(0, bytesRead), sizeBytes: (await file.stat()).size }
}

/** Rejects entries that no dataset needs: names that point outside the archive, too many files, too many bytes. */
class ArchiveGuard {
  readonly #limit: number
  #entries = 0
  #bytes = 0

  constructor(archiveBytes: number) {
    this.#limit = Math.min(MAX_BYTES, Math.max(ALWAYS_FINE_BYTES, archiveBytes * MAX_RATIO))
  }

  admit(name: string, sizeBytes: number): void {
    this.#entries += 1
    if (this.#entries > MAX_ENTRIES) throw new DatasetRefused(`more than ${MAX_ENTRIES} files`)
    const parts = name.replaceAll('\\', '/').split('/')
    if (parts.includes('..') || parts[0] === '' || /^[A-Za-z]:/.test(name) || name.includes('\0')) {
      throw new DatasetRefused(`${quoted(name)} points outside the archive`)
    }
    this.#bytes += sizeBytes
    if (this.#bytes > this.#limit) {
      throw new DatasetRefused(
        `unpacks to more than ${this.#limit} bytes, the limit for an archive of its size`,
      )
    }
  }
}

const isLink = (name: string) =>
  new DatasetRefused(`${quoted(name)} is a link; archives may contain only files`)

/** Converts an archive reader's error into a refusal of the file. */
function damaged(err: unknown): never {
  if (err instanceof DatasetRefused) throw err
  const reason = err instanceof Error ? err.message : String(err)
  throw new DatasetRefused(`the archive is damaged: ${reason.slice(0, 200)}`, { cause: err })
}

const KIND = 0o170000
const SYMLINK = 0o120000

async function walkZip(path: string, guard: ArchiveGuard, visit: FileVisitor): Promise<void> {
  const zip = await openZip(path, { validateEntrySizes: true }).catch(damaged)
  try {
    for await (const entry of zip.eachEntry()) {
      const { fileName: name, uncompressedSize: sizeBytes } = entry
      // The declared size is enforced while reading, so we can count it up front.
      guard.admit(name, sizeBytes)
      if (((entry.externalFileAttributes >>> 16) & KIND) === SYMLINK) throw isLink(name)
      if (entry.isEncrypted()) throw new DatasetRefused(`${quoted(name)} is encrypted`)
      if (name.endsWith('/')) continue
      await visit({
        name,
        sizeBytes,
        saveTo: async (target) => pipeline(await zip.openReadStreamPromise(entry), createWriteStream(target)),
      })
    }
  } catch (err) {
    damaged(err)
  } finally {
    zip.close()
  }
}

async function walkTar(path: string, guard: ArchiveGuard, visit: FileVisitor): Promise<void> {
  const { promise: finished, resolve, reject } = Promise.withResolvers<void>()
  const source = createReadStream(path)
  const parser = new Parser({ strict: true })
  // The parser emits the next entry only once this one has been read.
  let visited = Promise.resolve()
  parser.on('entry', (entry: ReadEntry) => {
    visited = visited.then(() => visitTarEntry(entry, guard, visit))
    visited.catch(reject)
  })
  parser.on('end', () => void visited.then(resolve, reject))
  parser.on('error', reject)
  source.on('error', reject)
  source.pipe(parser as unknown as NodeJS.WritableStream)
  try {
    await finished
  } catch (err) {
    damaged(err)
  } finally {
    source.destroy()
  }
}

const TAR_FILES = new Set<string>(['File', 'OldFile', 'ContiguousFile'])

async function visitTarEntry(entry: ReadEntry, guard: ArchiveGuard, visit: FileVisitor): Promise<void> {
  const { path: name, type, size: sizeBytes } = entry
  guard.admit(name, sizeBytes)
  if (type === 'Link' || type === 'SymbolicLink') throw isLink(name)
  if (TAR_FILES.has(type)) {
    await visit({
      name,
      sizeBytes,
      saveTo: (target) => pipeline(Readable.from(entry), createWriteStream(target)),
    })
  } else if (type !== 'Directory') {
    throw new DatasetRefused(`${quoted(name)} is a ${type}; archives may contain only files`)
  }
  // Discard the part that the visitor did not read.
  entry.resume()
}
