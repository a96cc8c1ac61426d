import { createHash } from 'node:crypto'
import { Transform, type Readable } from 'node:stream'
import { ApiError } from '../../domain/errors.ts'

/** What is stored under a key. */
export interface ObjectInfo {
  key: string
  sizeBytes: number
  contentType: string
  lastModified: Date
  etag: string
  /** Hexadecimal, of the bytes as the store itself has read them; only `head` tells it, where the store knows it. */
  sha256?: string
}

/** Bytes `start` to `end`, both counted in, as in a Range header. */
export interface ByteRange {
  start: number
  end?: number
}

export interface OpenObject {
  info: ObjectInfo
  body: Readable
}

export interface SignedUrl {
  url: string
  expiresAt: Date
}

export interface SignedPut extends SignedUrl {
  /** What the upload has to carry, the content type among it. */
  headers: Record<string, string>
}

/** A file on this machine with an object's bytes; disposing it gives back what it took. */
export interface LocalCopy extends AsyncDisposable {
  path: string
}

/**
 * Where files live: S3 or a directory. Keys are slash-separated ASCII names; no key may be a folder
 * of another one (`a/b` beside `a/b/c`). Every write is all or nothing.
 */
export interface ObjectStore {
  /** Memory that one `put` of a stream takes at most. */
  readonly putBytes: number
  /**
   * Streams `body` in. More than `maxBytes` is `payload_too_large`, bytes of another digest than `sha256` are `bad_request`;
   * both leave nothing behind.
   */
  put(
    key: string,
    body: Readable | Uint8Array,
    options: { contentType: string; maxBytes?: number; sha256?: string; signal?: AbortSignal },
  ): Promise<{ sizeBytes: number; sha256: string }>
  /** Throws `not_found`, or `range_not_satisfiable` when the range starts beyond the end. */
  get(key: string, options?: { range?: ByteRange; signal?: AbortSignal }): Promise<OpenObject>
  head(key: string): Promise<ObjectInfo | undefined>
  list(prefix: string): AsyncIterable<ObjectInfo>
  /** Gives an object another key, where `head` tells its digest; safe to repeat. Throws `not_found` when it is under neither. */
  move(from: string, to: string): Promise<void>
  /** Deleting what is not there is fine. */
  delete(key: string): Promise<void>
  /** Deletes everything below a folder; `prefix` ends in a slash. */
  deletePrefix(prefix: string): Promise<void>
  /** With `filename` the answer is offered as a download under that name. */
  signGet(key: string, options: { expiresInS: number; filename?: string }): Promise<SignedUrl>
  /** The upload has to carry exactly this content type; with `sha256` the store takes only bytes of this digest. */
  signPut(
    key: string,
    options: { expiresInS: number; contentType: string; sha256?: string },
  ): Promise<SignedPut>
  /** For readers that need a file: the stored one itself where there is one, else a download into `directory`. */
  localCopy(key: string, options: { directory: string; signal?: AbortSignal }): Promise<LocalCopy>
}

const SEGMENT = /^[A-Za-z0-9_.@=+ ()-]{1,200}$/

/** Refuses keys that could leave the store or that the two kinds of store would read differently. */
export function assertKey(key: string): string {
  const bad = key.length > 900 || key.split('/').some((part) => !SEGMENT.test(part) || /^\.+$/.test(part))
  if (bad) throw new ApiError('not_found', 'there is no object with this name')
  return key
}

/** The folder form of `assertKey`. */
export function assertPrefix(prefix: string): string {
  if (!prefix.endsWith('/')) throw new Error(`an object prefix ends in a slash: ${prefix}`)
  assertKey(prefix.slice(0, -1))
  return prefix
}

/** Passes on what may be stored, and measures it; fails at the end when the bytes are not the ones announced. */
export function meter({ maxBytes, sha256 }: { maxBytes?: number; sha256?: string }) {
  const hash = createHash('sha256')
  const measured = { sizeBytes: 0, sha256: '' }
  const through = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      measured.sizeBytes += chunk.length
      if (maxBytes !== undefined && measured.sizeBytes > maxBytes) {
        done(new ApiError('payload_too_large', `the file is larger than ${maxBytes} bytes`))
        return
      }
      hash.update(chunk)
      done(null, chunk)
    },
    flush(done) {
      measured.sha256 = hash.digest('hex')
      const isOther = sha256 !== undefined && sha256 !== measured.sha256
      done(isOther ? new ApiError('bad_request', `the bytes have not the announced SHA-256 ${sha256}`) : null)
    },
  })
  return { through, measured }
}

/** A Content-Disposition that every client understands, with the exact name beside an ASCII one. */
export function attachment(filename: string): string {
  const ascii = filename.replaceAll(/[^\x20-\x7e]|["\\%]/g, '_')
  const exact = encodeURIComponent(filename).replaceAll(/['()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`)
  return `attachment; filename="${ascii}"; filename*=UTF-8''${exact}`
}
