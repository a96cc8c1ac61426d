import { randomUUID } from 'node:crypto'
import { constants, createReadStream, createWriteStream, type Stats } from 'node:fs'
import { mkdir, open, opendir, readFile, rename, rm, rmdir, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import pRetry from 'p-retry'
import { ApiError, storageFull } from '../../domain/errors.ts'
import { isDiskFull } from '../disk-space.ts'
import { DiskReserve } from './disk-reserve.ts'
import { loadSigningKey, signObjectUrl, verifyObjectUrl, type ObjectGrant } from './signature.ts'
import { assertKey, assertPrefix, meter, type ObjectInfo, type ObjectStore } from './store.ts'

/** The memory that one write uses: a few chunks on their way from the socket to the disk. */
const PUT_BYTES = 256 * 1024

const OCTETS = 'application/octet-stream'
const TEMPORARY_FILE_TTL_MS = 24 * 3_600_000

export interface LocalObjectStoreOptions {
  /** Created if absent; all processes of the platform may share it. */
  directory: string
  /**
   * Returns the base of signed URLs. It is called for each signature, because the port may not be known until the
   * server is listening.
   */
  baseUrl: () => string
  /** The free space in bytes that uploads must leave; at most a twentieth of the disk. */
  reserveBytes?: number
}

/** A store whose signed URLs are served by this platform, which calls `authorize` for each. */
export interface LocalObjectStore extends ObjectStore {
  /** Throws `forbidden` when the URL is forged, expired or for another request. */
  authorize(request: { method: 'GET' | 'PUT'; key: string; query: URLSearchParams }): ObjectGrant
}

/** Returns whether this platform serves a store's signed URLs itself. */
export const isLocalStore = (store: ObjectStore): store is LocalObjectStore => 'authorize' in store

/**
 * Stores objects as files in one directory: `objects/` holds the bytes under their keys, `types/` the content types,
 * `digests/` their SHA-256, `incoming/` files that are still being written. A write becomes visible through a single
 * rename, after its bytes are on disk.
 */
export async function openLocalObjectStore({
  directory,
  baseUrl,
  reserveBytes = 0,
}: LocalObjectStoreOptions): Promise<LocalObjectStore> {
  const at = layout(directory)
  await mkdir(at.incoming, { recursive: true })
  for (const root of rootsOf(at)) await mkdir(root, { recursive: true })
  await sweepIncoming(at.incoming)
  const signingKey = await loadSigningKey(directory)
  const reserve = new DiskReserve(directory, reserveBytes)
  const sign = (parts: Omit<Parameters<typeof signObjectUrl>[1], 'baseUrl'>) =>
    signObjectUrl(signingKey, { ...parts, baseUrl: baseUrl() })

  return {
    putBytes: PUT_BYTES,
    put: (key, body, options) => put({ at, reserve }, assertKey(key), body, options).catch(fullStore),
    get: (key, options) => get(at, assertKey(key), options),
    head: (key) => head(at, assertKey(key)),
    list: (prefix) => list(at, prefix === undefined ? '' : assertPrefix(prefix)),
    move: (from, to) => move(at, assertKey(from), assertKey(to)).catch(fullStore),
    room: () => reserve.room(),
    delete: (key) => remove(at, assertKey(key)),
    async deletePrefix(prefix) {
      for (const root of rootsOf(at)) {
        await rm(join(root, assertPrefix(prefix)), { recursive: true, force: true })
      }
    },
    signGet: async (key, { expiresInS, filename }) =>
      sign({ method: 'GET', key: assertKey(key), expiresInS, ...(filename && { filename }) }),
    signPut: async (key, { expiresInS, contentType, sha256, sizeBytes }) => ({
      ...sign({
        method: 'PUT',
        key: assertKey(key),
        expiresInS,
        contentType,
        ...(sha256 && { sha256 }),
        ...(sizeBytes !== undefined && { sizeBytes }),
      }),
      headers: { 'content-type': contentType },
    }),
    async localCopy(key) {
      const path = join(at.objects, assertKey(key))
      if (!(await fileStat(path))) throw missing()
      return { path, [Symbol.asyncDispose]: async () => undefined }
    },
    authorize: (request) => verifyObjectUrl(signingKey, request),
  }
}

interface Layout {
  objects: string
  types: string
  digests: string
  incoming: string
}

const layout = (directory: string): Layout => ({
  objects: join(directory, 'objects'),
  types: join(directory, 'types'),
  digests: join(directory, 'digests'),
  incoming: join(directory, 'incoming'),
})

/** All files of an object. The bytes come last, because they make the object exist. */
const rootsOf = ({ types, digests, objects }: Layout) => [types, digests, objects]

/** Rethrows the error of a write; turns a full disk into an error that callers may see. */
function fullStore(err: unknown): never {
  throw isDiskFull(err) ? storageFull('object store', err) : err
}

const missing = () => new ApiError('not_found', 'there is no object with this name')

/** Writes an object. Buffers skip the reserve check: they are small, and their work has already been admitted. */
const put = async (
  { at, reserve }: { at: Layout; reserve: DiskReserve },
  key: string,
  body: Readable | Uint8Array,
  { contentType, signal, sizeBytes, isAdmitted, ...expected }: Parameters<ObjectStore['put']>[2],
) => {
  const isBounded = body instanceof Readable && isAdmitted !== true
  if (isBounded) await reserve.check(sizeBytes)
  const { through, measured } = meter(expected)
  const temporary = join(at.incoming, randomUUID())
  try {
    const source = body instanceof Readable ? body : Readable.from([body], { objectMode: false })
    // `flush` syncs the bytes before the stream closes, so the rename never exposes missing data.
    const file = createWriteStream(temporary, { flush: true, highWaterMark: 1 << 20 })
    const options = signal ? { signal } : {}
    if (isBounded) await pipeline(source, through, reserve.guard(), file, options)
    else await pipeline(source, through, file, options)
    // Write these first: without their object they are harmless, but an object without them would be wrong.
    await writeInto(join(at.types, key), (path) => writeFile(path, contentType))
    await writeInto(join(at.digests, key), (path) => writeFile(path, measured.sha256))
    await writeInto(join(at.objects, key), (path) => rename(temporary, path))
    await syncDirectory(dirname(join(at.objects, key)))
    return measured
  } catch (err) {
    await rm(temporary, { force: true })
    throw err
  }
}

async function get(at: Layout, key: string, { range, signal }: Parameters<ObjectStore['get']>[1] = {}) {
  const info = await head(at, key)
  if (!info) throw missing()
  if (range && range.start >= info.sizeBytes) {
    throw new ApiError('range_not_satisfiable', 'the range starts beyond the end of the object', {
      details: { size_bytes: info.sizeBytes },
    })
  }
  // A stream that is aborted on creation fails before a listener can be added.
  signal?.throwIfAborted()
  const body = createReadStream(join(at.objects, key), {
    highWaterMark: 256 * 1024,
    ...(range && { start: range.start }),
    ...(range?.end !== undefined && { end: range.end }),
    ...(signal && { signal }),
  })
  return { info, body }
}

async function head(at: Layout, key: string): Promise<ObjectInfo | undefined> {
  const found = await fileStat(join(at.objects, key))
  if (!found) return undefined
  const contentType = (await readFile(join(at.types, key), 'utf8').catch(() => '')) || OCTETS
  const sha256 = await readFile(join(at.digests, key), 'utf8').catch(() => '')
  return { ...describe(key, found, contentType), ...(sha256 && { sha256 }) }
}

const describe = (key: string, found: Stats, contentType: string): ObjectInfo => ({
  key,
  sizeBytes: found.size,
  contentType,
  lastModified: found.mtime,
  etag: `"${found.ino.toString(16)}-${found.size.toString(16)}-${Math.trunc(found.mtimeMs).toString(16)}"`,
})

async function* list(at: Layout, prefix: string): AsyncIterable<ObjectInfo> {
  const folder = await opendir(join(at.objects, prefix)).catch(ignoreMissing)
  if (!folder) return
  for await (const entry of folder) {
    if (entry.isDirectory()) {
      yield* list(at, `${prefix}${entry.name}/`)
      continue
    }
    const info = await head(at, prefix + entry.name)
    if (info) yield info
  }
}

async function move(at: Layout, from: string, to: string): Promise<void> {
  if (!(await fileStat(join(at.objects, from)))) {
    if (await fileStat(join(at.objects, to))) return
    throw missing()
  }
  for (const root of rootsOf(at)) {
    await writeInto(join(root, to), (path) => rename(join(root, from), path)).catch((err: unknown) => {
      // Another process may be moving the same object; if so, a retry succeeds because of the check above.
      if (root === at.objects) throw err
      ignoreMissing(err)
    })
  }
  await syncDirectory(dirname(join(at.objects, to)))
}

async function remove(at: Layout, key: string): Promise<void> {
  for (const root of rootsOf(at).toReversed()) {
    const path = join(root, key)
    await rm(path, { force: true })
    await removeEmptyFolders(root, dirname(path))
  }
}

async function removeEmptyFolders(root: string, folder: string): Promise<void> {
  if (folder.length <= root.length) return
  const removed = await rmdir(folder).then(
    () => true,
    () => false,
  )
  if (removed) await removeEmptyFolders(root, dirname(folder))
}

/** Creates the folder for a write, and re-creates it if a concurrent delete of its last object removes it. */
function writeInto(path: string, write: (path: string) => Promise<void>): Promise<void> {
  const writeOnce = async () => {
    await mkdir(dirname(path), { recursive: true })
    await write(path)
  }
  return pRetry(writeOnce, { retries: 4, minTimeout: 0, shouldRetry: ({ error }) => isMissing(error) })
}

async function syncDirectory(path: string): Promise<void> {
  const folder = await open(path, constants.O_RDONLY).catch(ignoreMissing)
  if (!folder) return
  await folder.sync()
  await folder.close()
}

/** Removes the files of killed writers; a live writer touches its file well within `TEMPORARY_FILE_TTL_MS`. */
async function sweepIncoming(incoming: string): Promise<void> {
  const oldest = Date.now() - TEMPORARY_FILE_TTL_MS
  for await (const entry of await opendir(incoming)) {
    const path = join(incoming, entry.name)
    const found = await fileStat(path)
    if (found && found.mtimeMs < oldest) await rm(path, { force: true })
  }
}

async function fileStat(path: string): Promise<Stats | undefined> {
  const found = await stat(path).catch(ignoreMissing)
  return found?.isFile() ? found : undefined
}

const isMissing = (err: unknown): boolean =>
  err instanceof Error && 'code' in err && (err.code === 'ENOENT' || err.code === 'ENOTDIR')

function ignoreMissing(err: unknown): undefined {
  if (isMissing(err)) return undefined
  throw err
}
