import type { Readable } from 'node:stream'

/** The bytes that a program wrote to one stream, up to a limit. */
export interface ProgramOutput {
  readonly text: Buffer
  /** The number of bytes beyond the limit, which were dropped. */
  readonly droppedBytes: number
}

/** Reads a stream to its end and returns its beginning. Calls `onTotal` with the number of bytes so far. */
export async function readBounded(
  stream: Readable,
  mostBytes: number,
  onTotal: (bytes: number) => void,
): Promise<ProgramOutput> {
  const kept: Buffer[] = []
  let total = 0
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    const room = mostBytes - total
    if (room > 0) kept.push(chunk.subarray(0, room))
    total += chunk.length
    onTotal(total)
  }
  return { text: Buffer.concat(kept), droppedBytes: Math.max(0, total - mostBytes) }
}

/** Returns the text with a last line about truncated bytes. */
export function formatOutput({ text, droppedBytes }: ProgramOutput): string {
  const decoded = text.toString().replaceAll('\u0000', '\uFFFD')
  if (droppedBytes === 0) return decoded
  // The cut may split a character.
  return `${decoded.replace(/\uFFFD$/, '')}\n[cut: ${droppedBytes} bytes more]\n`
}
