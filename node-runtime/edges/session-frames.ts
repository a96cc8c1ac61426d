import { createHash } from 'node:crypto'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'

/** Length, flags, sequence and digest, before the bytes of a frame. Numbers are big-endian, as in frames of links. */
const HEAD_BYTES = 4 + 4 + 8 + 32
const DIGEST_AT = 16
const LAST = 1
/** A batch of hidden states is smaller; a larger one goes as several frames. */
export const MAX_FRAME_BYTES = 4 * 1024 * 1024
export const MAX_MESSAGE_BYTES = HEAD_BYTES + MAX_FRAME_BYTES

/** One frame of a session; sequences of each direction begin at 1. */
export interface SessionFrame {
  sequence: number
  bytes: Buffer
  /** No frame follows in this direction. */
  isLast: boolean
}

/** What a receiver answers: everything up to `ack` was taken, and so many bytes may be under way beyond it. */
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

/** Reads and verifies a frame. Flags that this version does not know are refused, because they may change what the bytes mean. */
export function decodeFrame(message: Buffer): SessionFrame {
  if (message.length < HEAD_BYTES) throw new EdgeError('refused', 'a frame is shorter than its head')
  const bytes = message.subarray(HEAD_BYTES)
  const flags = message.readUInt32BE(4)
  if (message.readUInt32BE(0) !== bytes.length)
    throw new EdgeError('size_mismatch', 'a frame has not the length that it names')
  if ((flags & ~LAST) !== 0) throw new EdgeError('refused', 'a frame has flags that are not known here')
  const digest = createHash('sha256').update(bytes).digest()
  if (!digest.equals(message.subarray(DIGEST_AT, HEAD_BYTES)))
    throw new EdgeError('digest_mismatch', 'a frame has not the bytes that were sent')
  return { sequence: Number(message.readBigUInt64BE(8)), bytes, isLast: flags === LAST }
}

export function decodeAnswer(text: string): SessionAnswer {
  const { ack, credit } = parse(text)
  if (!isCount(ack) || !isCount(credit)) throw new EdgeError('refused', 'an answer is no {ack, credit}')
  return { ack, credit }
}

function parse(text: string): Partial<Record<keyof SessionAnswer, unknown>> {
  try {
    return (JSON.parse(text) ?? {}) as object
  } catch (cause) {
    throw new EdgeError('refused', 'an answer is no JSON', { cause })
  }
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0
