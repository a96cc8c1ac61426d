import { hash } from 'node:crypto'
import { canonicalJson } from '../../domain/canonical-json.ts'
import { weighJson } from './bodies/json-weight.ts'

/** Returns a digest of JSON that ignores the order of members. `checkShape` has already bounded the nesting. */
export const canonicalDigest = (value: unknown): Buffer => hash('sha256', canonicalJson(value), 'buffer')

/** A body of up to this size can't contain too many values, so they aren't counted. */
const MAX_CANONICAL_BYTES = 16 * 1024
/** Sorting the members of more values would block the gateway's thread for too long. */
const MAX_CANONICAL_VALUES = 10_000

/**
 * Returns the digest that identifies a repeat of a request. It ignores the order of members, except for a body with
 * very many values, whose repeat must have the same bytes.
 * @param value the parsed body, with everything else that identifies the request.
 * @param query the part of `value` that is not the body.
 */
export function requestDigest(value: unknown, rawBody: Buffer, query: object = {}): Buffer {
  const isLarge = rawBody.length > MAX_CANONICAL_BYTES && weighJson(rawBody).values > MAX_CANONICAL_VALUES
  if (!isLarge) return canonicalDigest(value)
  const digest = hash('sha256', rawBody, 'buffer')
  return Object.keys(query).length === 0
    ? digest
    : hash('sha256', Buffer.concat([digest, canonicalDigest(query)]), 'buffer')
}
