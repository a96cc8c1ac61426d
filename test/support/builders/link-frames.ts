import { type Frame, frameAt, frameLength } from '../../../platform/link/codec.ts'

/** Yields the consecutive frames of one message. */
export function* decodeFrames(message: Buffer): Generator<Frame> {
  let at = 0
  do {
    const frame = frameAt(message, at)
    at += frameLength(frame)
    yield frame
  } while (at < message.length)
}
