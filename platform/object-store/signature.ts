import { createHmac, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto'
import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ApiError } from '../../domain/errors.ts'
import type { SignedUrl } from './store.ts'

/** The permission that a signed URL grants. */
export interface ObjectGrant {
  method: 'GET' | 'PUT'
  key: string
  /** Unix seconds. */
  expires: number
  contentType?: string
  /** The SHA-256 that the PUT bytes must have. */
  sha256?: string
  /** The number of bytes that must be PUT. */
  sizeBytes?: number
  filename?: string
}

/**
 * Returns the signing key of a directory's URLs, which is created once and shared by every process that opens the
 * directory.
 */
export async function loadSigningKey(directory: string): Promise<Buffer> {
  const path = join(directory, 'signing-key')
  // A process that restarts while the disk is full must come up, so don't write anything if there is a key.
  const stored = await readFile(path).catch((err: unknown) => {
    if (!hasCode(err, 'ENOENT')) throw err
  })
  if (stored) return stored
  await mkdir(directory, { recursive: true })
  const temporary = `${path}.${randomUUID()}`
  try {
    await writeFile(temporary, randomBytes(32), { mode: 0o600, flush: true })
    // If several processes start at once, exactly one link succeeds; the others read its key.
    await link(temporary, path).catch((err: unknown) => {
      if (!hasCode(err, 'EEXIST')) throw err
    })
  } finally {
    await rm(temporary, { force: true })
  }
  return readFile(path)
}

/** Builds a URL that carries its own permission. The key is one path segment, and `signature` is last in the query. */
export function signObjectUrl(
  signingKey: Buffer,
  { baseUrl, expiresInS, ...rest }: Omit<ObjectGrant, 'expires'> & { baseUrl: string; expiresInS: number },
): SignedUrl {
  const expires = Math.floor(Date.now() / 1000) + expiresInS
  const grant = { ...rest, expires }
  const query = new URLSearchParams({ method: grant.method, expires: String(expires) })
  if (grant.contentType) query.set('content_type', grant.contentType)
  if (grant.sha256) query.set('sha256', grant.sha256)
  if (grant.sizeBytes !== undefined) query.set('size_bytes', String(grant.sizeBytes))
  if (grant.filename) query.set('filename', grant.filename)
  query.set('signature', digest(signingKey, grant).toString('base64url'))
  const url = `${baseUrl}/objects/${encodeURIComponent(grant.key)}?${query.toString()}`
  return { url, expiresAt: new Date(expires * 1000) }
}

/** Returns the grant of a request's URL; throws `forbidden` when it is forged, expired or for another request. */
export function verifyObjectUrl(
  signingKey: Buffer,
  { method, key, query }: { method: 'GET' | 'PUT'; key: string; query: URLSearchParams },
): ObjectGrant {
  const contentType = query.get('content_type')
  const sha256 = query.get('sha256')
  const sizeBytes = query.get('size_bytes')
  const filename = query.get('filename')
  const grant: ObjectGrant = {
    method,
    key,
    expires: Number(query.get('expires')),
    ...(contentType !== null && { contentType }),
    ...(sha256 !== null && { sha256 }),
    ...(sizeBytes !== null && { sizeBytes: Number(sizeBytes) }),
    ...(filename !== null && { filename }),
  }
  // Compare the strings rather than the bytes: several base64 strings decode to the same bytes, but we issued only one.
  const given = Buffer.from(query.get('signature') ?? '')
  const expected = Buffer.from(digest(signingKey, grant).toString('base64url'))
  const isWhole = new Set(query.keys()).size === query.size
  if (!isWhole || given.length !== expected.length || !timingSafeEqual(given, expected)) {
    throw new ApiError('forbidden', 'the signature of this URL does not match the request')
  }
  if (Date.now() >= grant.expires * 1000) throw new ApiError('forbidden', 'this URL has expired')
  return grant
}

const digest = (
  signingKey: Buffer,
  { method, key, expires, contentType, sha256, sizeBytes, filename }: ObjectGrant,
): Buffer =>
  createHmac('sha256', signingKey)
    .update(
      JSON.stringify(
        // The digest and the size come last, and only if present, so that URLs without them stay valid.
        ['v1', method, key, expires, contentType ?? null, filename ?? null].concat(
          sha256 ?? [],
          sizeBytes === undefined ? [] : `size=${sizeBytes}`,
        ),
      ),
    )
    .digest()

const hasCode = (err: unknown, code: string): boolean =>
  err instanceof Error && 'code' in err && err.code === code
