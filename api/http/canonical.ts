import { hash } from 'node:crypto'
import { canonicalJson } from '../../domain/canonical-json.ts'

/** Returns a digest of JSON that does not depend on the order of members. `checkShape` has bounded the nesting. */
export const canonicalDigest = (value: unknown): Buffer => hash('sha256', canonicalJson(value), 'buffer')
