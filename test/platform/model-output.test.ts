import assert from 'node:assert/strict'
import { OutputError, type OutputFile, readOutput } from '../../platform/model-output.ts'

const line = (value: object): Buffer => Buffer.from(`${JSON.stringify(value)}\n`)
const file = (filename: string, size_bytes: number): Buffer =>
  line({ event: 'file', filename, content_type: 'audio/wav', modality: 'audio', size_bytes })
const END = line({ event: 'result', metadata: { seed: 7 } })

describe('answers with steps and files', () => {
  async function* piecesOf(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
  }
  const read = (parts: readonly Buffer[], size = 5, onStep?: (step: number, total: number) => void) =>
    readOutput(piecesOf(Buffer.concat(parts), size), {
      take: async ({ filename }: OutputFile, bytes) => [
        filename,
        Buffer.concat(await Array.fromAsync(bytes)).toString(),
      ],
      onStep,
    })

  it('are read in chunks of any size', async () => {
    const parts = [
      line({ event: 'step', step: 1, total: 2 }),
      file('a.wav', 7),
      Buffer.from('{"a"\n}x'),
      file('b.wav', 0),
      END,
    ]
    for (const size of [1, 7, 1_000]) {
      const steps: number[][] = []
      const { files, metadata } = await read(parts, size, (...step) => steps.push(step))

      assert.deepEqual(files, [
        ['a.wav', '{"a"\n}x'],
        ['b.wav', ''],
      ])
      assert.deepEqual([metadata, steps], [{ seed: 7 }, [[1, 2]]])
    }
  })

  it('may be retried when they are cut off, but not when the server rules it out', async () => {
    const fails = (parts: readonly Buffer[], retryable: boolean, message: RegExp) =>
      assert.rejects(read(parts), (err) => {
        assert.ok(err instanceof OutputError)
        assert.equal(err.retryable, retryable)
        assert.match(err.message, message)
        return true
      })

    await fails([], true, /broke off/)
    await fails([file('a.wav', 7), Buffer.from('abc')], true, /broke off/)
    await fails([END.subarray(0, -1)], true, /broke off/)
    await fails([line({ event: 'error', message: 'no picture', retryable: false })], false, /^no picture$/)
    await fails([file('../a.wav', 0), END], false, /invalid file names/)
    await fails([file('a.wav', 0), file('a.wav', 0), END], false, /invalid file names/)
    await fails([file('a.wav', 5 * 1024 ** 3), END], false, /too large/)
  })
})
