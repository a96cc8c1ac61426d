import { hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { ApiError } from '../../domain/errors.ts'

/** Returns an ETag for any JSON value; equal values have equal tags. */
export const etagOf = (value: unknown): string =>
  etagOfDigest(hash('sha256', JSON.stringify(value), 'base64url'))

/** Returns an ETag for a SHA-256 digest in base64url, of which 22 characters are enough. */
export const etagOfDigest = (digest: string): string => `"${digest.slice(0, 22)}"`

const bare = (tag: string): string => tag.trim().replace(/^W\//, '')

/** Returns whether an `If-None-Match` or `If-Match` list contains `tag`; weakness is ignored. */
export function etagMatches(list: string | undefined, tag: string): boolean {
  if (list === undefined) return false
  return list.trim() === '*' || list.split(',').some((other) => bare(other) === bare(tag))
}

/**
 * Throws a 412 on routes with `ifMatch` unless the caller has seen the current state. `requireIfMatch` has already
 * rejected a missing header.
 */
export function checkIfMatch({ req }: { req: Pick<IncomingMessage, 'headers'> }, currentTag: string): void {
  if (etagMatches(req.headers['if-match'], currentTag)) return
  throw new ApiError('precondition_failed', 'this has changed since you read it; read it again', {
    details: { etag: currentTag },
  })
}
