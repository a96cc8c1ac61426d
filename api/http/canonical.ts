import { hash } from 'node:crypto'
import { canonicalJson } from '../../domain/canonical-json.ts'

/** A digest of JSON in which the order of members does not matter. The nesting has been bounded by `checkShape`. */
export const canonicalDigest = (value: unknown): Buffer => hash('sha256', canonicalJson(value), 'buffer')
