import type { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'

/** The default maximum length of an output line, in characters. */
export const MAX_LINE = 64 * 1024
const LINE_END = /\r\n|\n|\r/

/**
 * Calls `onLine` with each line of a program's output until it ends. Truncates lines at `maxLength` characters:
 * programs that read untrusted files may write an endless line, which `readline` would buffer until the node runs out
 * of memory.
 */
export async function readLines(
  stream: Readable,
  onLine: (line: string) => void,
  maxLength = MAX_LINE,
): Promise<void> {
  const decoder = new StringDecoder('utf8')
  let line = ''
  let hasCarriageReturn = false
  const take = (text: string) => {
    if (text === '') return
    // A CRLF may be split across two chunks.
    const parts = (hasCarriageReturn && text.startsWith('\n') ? text.slice(1) : text).split(LINE_END)
    hasCarriageReturn = text.endsWith('\r')
    for (const [at, part] of parts.entries()) {
      if (line.length < maxLength) line += part.slice(0, maxLength - line.length)
      if (at === parts.length - 1) break
      onLine(line)
      line = ''
    }
  }
  for await (const chunk of stream as AsyncIterable<Buffer>) take(decoder.write(chunk))
  take(decoder.end())
  if (line !== '') onLine(line)
}
