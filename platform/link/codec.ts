import { FRAME, type FrameType, KNOWN_NEEDS } from '../../schemas/nodes/link.ts'

const HEADER = 11
const NO_BODY = Buffer.alloc(0)

/** A decoded frame; `meta` and `body` are views of the received bytes. */
export interface Frame {
  /** One of `FRAME`, or an unknown type from a later version. */
  type: number
  stream: number
  meta: Buffer
  body: Buffer
}

/** The peer violated the protocol, so the link is closed. */
export class LinkProtocolError extends Error {
  override readonly name = 'LinkProtocolError'
}

/** Encodes a frame. `meta` is JSON text, so that callers can cache the text of frequent metas. */
export function encodeFrame(type: FrameType, stream: number, meta = '', body: Uint8Array = NO_BODY): Buffer {
  const metaLength = Buffer.byteLength(meta)
  if (metaLength > 0xffff) throw new LinkProtocolError('meta exceeds 64 KB')

  const frame = newFrame(type, stream, metaLength, body.length)
  if (metaLength) frame.write(meta, HEADER)
  if (body.length) frame.set(body, HEADER + metaLength)
  return frame
}

/** Encodes a `chunk` frame of consecutive pieces with `bytes` in total. */
export function encodeChunk(stream: number, pieces: readonly Uint8Array[], bytes: number): Buffer {
  const frame = newFrame(FRAME.chunk, stream, 0, bytes)
  let at = HEADER
  for (const piece of pieces) {
    frame.set(piece, at)
    at += piece.length
  }
  return frame
}

function newFrame(type: FrameType, stream: number, metaLength: number, bodyLength: number): Buffer {
  const frame = Buffer.allocUnsafe(HEADER + metaLength + bodyLength)
  frame[0] = type
  frame.writeUInt32BE(stream, 1)
  frame.writeUInt16BE(metaLength, 5)
  frame.writeUInt32BE(bodyLength, 7)
  return frame
}

/** Decodes the frame at `at`; throws if it is malformed. Unknown types are valid. */
export function frameAt(message: Buffer, at: number): Frame {
  const metaAt = at + HEADER
  const type = message[at]
  if (metaAt > message.length || !type) throw new LinkProtocolError('not a frame')
  const bodyAt = metaAt + message.readUInt16BE(at + 5)
  const end = bodyAt + message.readUInt32BE(at + 7)
  if (end > message.length) throw new LinkProtocolError('a frame extends beyond its message')
  return {
    type,
    stream: message.readUInt32BE(at + 1),
    meta: message.subarray(metaAt, bodyAt),
    body: message.subarray(bodyAt, end),
  }
}

/** Returns the size of an encoded frame. */
export const frameLength = ({ meta, body }: Frame): number => HEADER + meta.length + body.length

/** Returns the link version in a peer's header; 1 without a header. */
export function versionIn(header: string | string[] | undefined): number {
  const version = Number(header ?? 1)
  return Number.isSafeInteger(version) && version > 0 ? version : 1
}

/** Returns the first feature that a stream needs but this version does not support. */
export function unknownNeed(needs: unknown): string | undefined {
  if (!Array.isArray(needs)) return undefined
  const need = (needs as unknown[]).find((one) => typeof one !== 'string' || !KNOWN_NEEDS.has(one))
  if (need === undefined) return undefined
  return typeof need === 'string' ? need.slice(0, 100) : 'an unnamed feature'
}

/** Returns the bytes, copied if they fill less than half of their buffer, because a view keeps all of it in memory. */
export const compact = (bytes: Buffer): Buffer =>
  2 * bytes.length < bytes.buffer.byteLength ? Buffer.from(bytes) : bytes

/** Parses the meta of a frame; an absent meta is an empty object. */
export function parseMeta<T>(frame: Frame): T {
  return parseJson<T>(frame.meta)
}

/**
 * Parses a JSON body as `parseMeta` parses a meta. After the signed handshake, the two ends trust the shape of each
 * other's messages.
 */
export function parseJson<T>(bytes: Buffer): T {
  if (bytes.length === 0) return {} as T
  let value: unknown
  try {
    value = JSON.parse(bytes.toString())
  } catch (cause) {
    throw new LinkProtocolError('malformed JSON in a frame', { cause })
  }
  if (typeof value !== 'object' || value === null)
    throw new LinkProtocolError('the JSON in a frame is not an object')
  return value as T
}
