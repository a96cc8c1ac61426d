import { open } from 'node:fs/promises'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import type { EdgeSession } from './edge-session.ts'
import type { FrameSource } from './growing-payload.ts'

/** Each frame is hashed and acknowledged as a unit: small frames are acknowledged sooner, large ones cost less. */
const FRAME_BYTES = 256 * 1024

/**
 * Sends a file over a session while it grows, at the peer's pace. The last frame is sent once the file is complete.
 */
export async function sendFrames(
  source: FrameSource,
  session: EdgeSession,
  { windowBytes, signal }: { windowBytes: number; signal: AbortSignal },
): Promise<void> {
  await using file = await open(source.path, 'r')
  const buffer = Buffer.allocUnsafeSlow(Math.min(FRAME_BYTES, windowBytes))
  for (let at = 0, isSent = false; !isSent;) {
    const { bytes, isWhole } = await source.grown(at, signal)
    do {
      const length = Math.min(buffer.length, bytes - at)
      const { bytesRead } = await file.read(buffer, 0, length, at)
      if (bytesRead < length)
        throw new EdgeError('payload_gone', 'the payload was truncated while it was sent')
      at += bytesRead
      isSent = isWhole && at === bytes
      // `send` copies the bytes, so the buffer can be reused.
      await session.send(buffer.subarray(0, bytesRead), { isLast: isSent })
    } while (at < bytes)
  }
}
