import { createHash } from 'node:crypto'
import { Transform, type Readable } from 'node:stream'
import { ApiError } from '../../domain/errors.ts'
import type { DiskSpace } from '../disk-space.ts'

/** The metadata of an object. */
export interface ObjectInfo {
  key: string
  sizeBytes: number
  contentType: string
  lastModified: Date
  etag: string
  /** Hexadecimal digest, computed by the store itself; only `head` returns it, and only if the store has it. */
  sha256?: string
}

/** Bytes `start` to `end`, both inclusive, as in a Range header. */
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
  /** The headers that the upload must have, including the content type. */
  headers: Record<string, string>
}

/** A local file with an object's bytes; disposing it removes the file if it was downloaded. */
export interface LocalCopy extends AsyncDisposable {
  path: string
}

/** The size and free space of a store's disk in bytes. Uploads may not use the reserve. */
export interface StoreSpace extends DiskSpace {
  reserveBytes: number
}

/**
 * A store of files: S3 or a directory. Keys are slash-separated ASCII names, and no key may be the folder of another
 * one (`a/b` and `a/b/c`). Every write is atomic.
 */
export interface ObjectStore {
  /** The maximum memory that one `put` of a stream uses. */
  readonly putBytes: number
  /**
   * Stores the stream `body`. Throws `payload_too_large` for more than `maxBytes`, and `bad_request` for bytes that
   * don't match `sha256`; neither leaves anything behind. Throws `no_capacity` if the disk has no space, checked before
   * the first byte if `sizeBytes` is known. With `isAdmitted` the write may use the disk's reserve: for results and
   * checkpoints of work that was accepted.
   */
  put(
    key: string,
    body: Readable | Uint8Array,
    options: {
      contentType: string
      maxBytes?: number
      sha256?: string
      sizeBytes?: number
      isAdmitted?: boolean
      signal?: AbortSignal
    },
  ): Promise<{ sizeBytes: number; sha256: string }>
  /** Returns the space on the disk; undefined if the store does not report it. */
  room(): Promise<StoreSpace | undefined>
  /** Throws `not_found`, or `range_not_satisfiable` when the range starts beyond the end. */
  get(key: string, options?: { range?: ByteRange; signal?: AbortSignal }): Promise<OpenObject>
  head(key: string): Promise<ObjectInfo | undefined>
  /** Lists the objects of a folder, or all objects. */
  list(prefix?: string): AsyncIterable<ObjectInfo>
  /**
   * Moves an object to another key, where `head` then returns its digest. Safe to repeat. Throws `not_found` when the
   * object is under neither key.
   */
  move(from: string, to: string): Promise<void>
  /** Deletes an object; deleting an absent one succeeds. */
  delete(key: string): Promise<void>
  /** Deletes everything in a folder; `prefix` ends in a slash. */
  deletePrefix(prefix: string): Promise<void>
  /** Signs a download URL; with `filename` the response is offered as a download under that name. */
  signGet(key: string, options: { expiresInS: number; filename?: string }): Promise<SignedUrl>
  /**
   * Signs an upload URL. The upload must have exactly this content type; with `sha256` the store accepts only bytes
   * with this digest, and with `sizeBytes` only this Content-Length.
   */
  signPut(
    key: string,
    options: { expiresInS: number; contentType: string; sha256?: string; sizeBytes?: number },
  ): Promise<SignedPut>
  /**
   * Returns a file for readers that need one: the stored file itself if there is one, otherwise a
   * download into `directory`.
   */
  localCopy(key: string, options: { directory: string; signal?: AbortSignal }): Promise<LocalCopy>
}

const SEGMENT = /^[A-Za-z0-9_.@=+ ()-]{1,200}$/

/** Rejects keys that could point outside the store, or that the two kinds of store would interpret differently. */
export function assertKey(key: string): string {
  const bad = key.length > 900 || key.split('/').some((part) => !SEGMENT.test(part) || /^\.+$/.test(part))
  if (bad) throw new ApiError('not_found', 'there is no object with this name')
  return key
}

/** Like `assertKey`, but for folders. */
export function assertPrefix(prefix: string): string {
  if (!prefix.endsWith('/')) throw new Error(`an object prefix must end in a slash: ${prefix}`)
  assertKey(prefix.slice(0, -1))
  return prefix
}

/** Returns a stream that passes bytes through and measures them; it fails beyond `maxBytes` or if `sha256` differs. */
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
      done(
        isOther
          ? new ApiError('bad_request', `the SHA-256 of the file is not the announced ${sha256}`)
          : null,
      )
    },
  })
  return { through, measured }
}

/** Builds a Content-Disposition that every client understands, with the exact name next to an ASCII fallback. */
export function attachment(filename: string): string {
  const ascii = filename.replaceAll(/[^\x20-\x7e]|["\\%]/g, '_')
  const exact = encodeURIComponent(filename).replaceAll(/['()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`)
  return `attachment; filename="${ascii}"; filename*=UTF-8''${exact}`
}
