import { hash } from 'node:crypto'

/** Returns a value as the bytes of a payload, with their digest. */
export function payloadOf(value: unknown): { payload: Buffer; sha256: string; size_bytes: number } {
  const payload = Buffer.from(JSON.stringify(value))
  return { payload, sha256: hash('sha256', payload, 'hex'), size_bytes: payload.length }
}
