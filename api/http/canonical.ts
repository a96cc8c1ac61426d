import { hash } from 'node:crypto'
import { canonicalJson } from '../../domain/canonical-json.ts'
import { weighJson } from './json-weight.ts'

/** Returns a digest of JSON that does not depend on the order of members. `checkShape` has bounded the nesting. */
export const canonicalDigest = (value: unknown): Buffer => hash('sha256', canonicalJson(value), 'buffer')

/** Fewer bytes cannot hold many values. */
const MAX_CANONICAL_BYTES = 16 * 1024
/** Sorting the members of more values would hold the gateway's thread for longer than a request may. */
const MAX_CANONICAL_VALUES = 10_000

/**
 * Returns the digest by which a repeat of a request is recognized. It does not depend on the order of members, except
 * for a body of very many values, whose repeat has to have the same bytes.
 * @param value the parsed body with whatever else identifies the request.
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
