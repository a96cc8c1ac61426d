import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { readLines } from '../../../node-runtime/processes/output-lines.ts'

const linesOf = async (chunks: (string | Buffer)[], maxLength?: number): Promise<string[]> => {
  const lines: string[] = []
  const stream = Readable.from(chunks.map((chunk) => Buffer.from(chunk)))
  await readLines(stream, (line) => void lines.push(line), maxLength)
  return lines
}

describe('output lines of a program', () => {
  it('end at any kind of line break, wherever chunks end', async () => {
    assert.deepEqual(await linesOf(['one\ntw', 'o\r', '\nthree\rfo', 'ur\r\n\nlast']), [
      'one',
      'two',
      'three',
      'four',
      '',
      'last',
    ])
    assert.deepEqual(await linesOf(['bar\r', 'bar\r', '\n']), ['bar', 'bar'])
    assert.deepEqual(await linesOf([]), [])
  })

  it('keep characters intact across chunks', async () => {
    const [first, second] = [Buffer.from('a€').subarray(0, 2), Buffer.from('a€').subarray(2)]

    assert.deepEqual(await linesOf([first!, second!, '\n']), ['a€'])
  })

  it('are truncated at the maximum length, and the next line is intact', async () => {
    assert.deepEqual(await linesOf(['abc', 'def', 'ghi\nnext\n'], 5), ['abcde', 'next'])
  })

  it('need no memory for output without a line end', async () => {
    const chunk = Buffer.alloc(1024 * 1024, 'x')
    // Longer than V8's maximum string length, at which readline would throw.
    const endless = Readable.from(Array.from({ length: 600 }, () => chunk))
    const lines: string[] = []

    await readLines(endless, (line) => void lines.push(line))

    assert.deepEqual(
      lines.map(({ length }) => length),
      [64 * 1024],
    )
  })
})
