import type { FileHandle } from 'node:fs/promises'
import type { Writable } from 'node:stream'

const BUFFERS = 4
const BUFFER_BYTES = 1024 * 1024

/**
 * Writes bytes `start` up to `end` of a file to a stream. Reuses a ring of buffers, which takes half the CPU of
 * `createReadStream` (bench/edges.ts). A buffer is refilled only once the reader has taken its bytes, so the file is
 * read at the reader's pace.
 */
export async function sendFile(
  file: FileHandle,
  { start, end }: { start: number; end: number },
  out: Writable,
  bufferBytes = BUFFER_BYTES,
): Promise<void> {
  const size = Math.max(1, Math.min(bufferBytes, end - start))
  const free: Buffer[] = []
  let made = 0
  let isClosed = out.destroyed
  let wake = () => {}
  const close = () => {
    isClosed = true
    wake()
  }
  out.once('close', close)
  try {
    for (let at = start; at < end;) {
      if (free.length === 0 && made < BUFFERS) {
        free.push(Buffer.allocUnsafeSlow(size))
        made += 1
      }
      while (free.length === 0 && !isClosed) await new Promise<void>((resolve) => (wake = resolve))
      const buffer = free.pop()
      if (isClosed || !buffer) throw new Error('the reader disconnected')
      const { bytesRead } = await file.read(buffer, 0, Math.min(size, end - at), at)
      if (bytesRead === 0) throw new Error('the file was truncated while it was sent')
      if (isClosed) throw new Error('the reader disconnected')
      at += bytesRead
      out.write(buffer.subarray(0, bytesRead), () => {
        free.push(buffer)
        wake()
      })
    }
  } finally {
    out.off('close', close)
  }
}
