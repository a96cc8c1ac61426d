import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { MAX_ROW_BYTES, refusedLine } from './profile.ts'

const NEWLINE = 0x0a
const CHUNK = 1024 * 1024

/** Yields the lines of a file with their numbers, without the newline; no line may exceed the limit of a row. */
export async function* readLines(path: string): AsyncIterable<{ line: number; bytes: Buffer }> {
  let line = 1
  let held: Buffer[] = []
  let heldBytes = 0
  const finish = (last: Buffer) => {
    const bytes = held.length ? Buffer.concat([...held, last]) : last
    held = []
    heldBytes = 0
    return bytes
  }
  for await (const chunk of createReadStream(path, { highWaterMark: CHUNK }) as AsyncIterable<Buffer>) {
    let from = 0
    for (let to = chunk.indexOf(NEWLINE); to !== -1; to = chunk.indexOf(NEWLINE, from)) {
      yield { line: line++, bytes: finish(chunk.subarray(from, to)) }
      from = to + 1
    }
    if (from === chunk.length) continue
    held.push(chunk.subarray(from))
    heldBytes += chunk.length - from
    if (heldBytes > MAX_ROW_BYTES) throw tooLong(line)
  }
  if (held.length) yield { line, bytes: finish(Buffer.alloc(0)) }
}

/** Returns at most the first `most` bytes of a file. */
export async function readStart(path: string, most: number): Promise<Buffer> {
  await using file = await open(path)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(most), 0, most, 0)
  return buffer.subarray(0, bytesRead)
}

/** Creates the error for a line that exceeds the size limit of a row. */
export const tooLong = (line: number) =>
  refusedLine(line, `longer than ${MAX_ROW_BYTES / 1024 / 1024} MB, the limit for a row`)

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Returns the text of a line, or `undefined` when it is not UTF-8. */
export function decodeLine(bytes: Uint8Array): string | undefined {
  try {
    return strict.decode(bytes)
  } catch {
    return undefined
  }
}
