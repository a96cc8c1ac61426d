import { createHash } from 'node:crypto'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'

/** Length, flags, sequence and digest precede a frame's bytes. Numbers are big-endian, as in link frames. */
const HEAD_BYTES = 4 + 4 + 8 + 32
const DIGEST_AT = 16
const LAST = 1
/** Most batches of hidden states are smaller; larger ones are split into several frames. */
export const MAX_FRAME_BYTES = 4 * 1024 * 1024
export const MAX_MESSAGE_BYTES = HEAD_BYTES + MAX_FRAME_BYTES

/** One frame of a session; sequence numbers start at 1 in each direction. */
export interface SessionFrame {
  sequence: number
  bytes: Buffer
  /** True if no frame follows in this direction. */
  isLast: boolean
}

/** A receiver's acknowledgement of every frame up to `ack`. At most `credit` bytes may be in flight beyond it. */
export interface SessionAnswer {
  ack: number
  credit: number
}

export function encodeFrame({ sequence, bytes, isLast }: SessionFrame): Buffer {
  const frame = Buffer.allocUnsafe(HEAD_BYTES + bytes.length)
  frame.writeUInt32BE(bytes.length, 0)
  frame.writeUInt32BE(isLast ? LAST : 0, 4)
  frame.writeBigUInt64BE(BigInt(sequence), 8)
  frame.set(createHash('sha256').update(bytes).digest(), DIGEST_AT)
  frame.set(bytes, HEAD_BYTES)
  return frame
}

/** Decodes and verifies a frame. Rejects unknown flags, because they may change the meaning of the bytes. */
export function decodeFrame(message: Buffer): SessionFrame {
  if (message.length < HEAD_BYTES) throw new EdgeError('refused', 'a frame is shorter than its header')
  const bytes = message.subarray(HEAD_BYTES)
  const flags = message.readUInt32BE(4)
  if (message.readUInt32BE(0) !== bytes.length)
    throw new EdgeError('size_mismatch', 'the length of a frame does not match its header')
  if ((flags & ~LAST) !== 0) throw new EdgeError('refused', 'a frame has unknown flags')
  const digest = createHash('sha256').update(bytes).digest()
  if (!digest.equals(message.subarray(DIGEST_AT, HEAD_BYTES)))
    throw new EdgeError('digest_mismatch', 'a frame does not match its digest')
  return { sequence: Number(message.readBigUInt64BE(8)), bytes, isLast: flags === LAST }
}

export function decodeAnswer(text: string): SessionAnswer {
  const { ack, credit } = parse(text)
  if (!isCount(ack) || !isCount(credit))
    throw new EdgeError('refused', 'an acknowledgement must be an object {ack, credit}')
  return { ack, credit }
}

function parse(text: string): Partial<Record<keyof SessionAnswer, unknown>> {
  try {
    return (JSON.parse(text) ?? {}) as object
  } catch (cause) {
    throw new EdgeError('refused', 'an acknowledgement is not valid JSON', { cause })
  }
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0
