import { open } from 'node:fs/promises'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import type { EdgeSession } from './edge-session.ts'
import type { FrameSource } from './growing-payload.ts'

/** A frame is hashed and taken as one, so that small ones acknowledge more often and large ones cost less. */
const FRAME_BYTES = 256 * 1024

/**
 * Sends a file over a session while it grows, at the pace at which the other end takes it. The last frame is sent once the
 * file is whole.
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
      if (bytesRead < length) throw new EdgeError('payload_gone', 'the payload has become shorter')
      at += bytesRead
      isSent = isWhole && at === bytes
      // It is copied into its frame before the next one is read.
      await session.send(buffer.subarray(0, bytesRead), { isLast: isSent })
    } while (at < bytes)
  }
}
