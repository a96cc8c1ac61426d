import { type Frame, frameAt, frameLength } from '../../../platform/link/codec.ts'

/** The frames of one message, one behind the other. */
export function* decodeFrames(message: Buffer): Generator<Frame> {
  let at = 0
  do {
    const frame = frameAt(message, at)
    at += frameLength(frame)
    yield frame
  } while (at < message.length)
}
