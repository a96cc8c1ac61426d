import { Readable } from 'node:stream'

const CHUNK_BYTES = 64 * 1024

/**
 * Returns a request body as a stream of chunks. undici restarts `headersTimeout` with each chunk that the socket accepts,
 * so a slow upload does not time out while it makes progress. A string or a buffer must be sent whole within that time.
 */
export function inChunks(body: string): Readable {
  return Readable.from(chunksOf(Buffer.from(body)))
}

function* chunksOf(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) yield bytes.subarray(at, at + CHUNK_BYTES)
}
