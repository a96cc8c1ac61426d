import { Readable } from 'node:stream'
import { serialize } from './bodies/json-text.ts'
import type { ReplyHeaders } from './reply.ts'

/** An encoded response: JSON as text, everything else unchanged. */
export interface Outgoing {
  status: number
  body: string | Uint8Array | Readable | undefined
  headers: ReplyHeaders | undefined
}

/** Encodes a handler's result. JSON is serialized once, so the stored reply equals the one sent. */
export function encode(status: number, body: unknown, headers: ReplyHeaders | undefined): Outgoing {
  if (body === undefined) return { status, body: undefined, headers }
  if (body instanceof Uint8Array || body instanceof Readable) return { status, body, headers }
  return { status, body: serialize(body), headers }
}
