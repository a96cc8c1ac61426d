import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { requireLlm } from '../../support/builders/models/tiny-llm.ts'
import { tinyReader } from '../../support/builders/models/tiny-reader.ts'
import { pngOf } from '../../support/builders/png.ts'
import { startSpecialist, TORCH } from '../../support/servers/nodes/specialist.ts'

const GREY = () => 99
const bodyOf = (bytes: Buffer) => ({ image_url: `data:image/png;base64,${bytes.toString('base64')}` })

describe('the vision model server', function () {
  this.timeout(600_000)
  before(requireLlm)

  it('reads images of any shape', async () => {
    await using server = await startSpecialist(await tinyReader({ kind: 'donut' }), '', TORCH)
    for (const [width, height] of [
      [3_000, 8],
      [8, 3_000],
      [20_000, 16],
    ] as const) {
      const { status, body } = await server.ask(bodyOf(pngOf(width, height, GREY)), 'ocr')

      assert.equal(status, 200, `${width} x ${height}: ${JSON.stringify(body)}`)
      assert.equal(body.text, 'Tea\n3')
    }
  })

  it('holds a large image in memory only once', async () => {
    await using server = await startSpecialist(await tinyReader(), '', TORCH)
    const peak = async () => {
      const [, kb] = /VmHWM:\s+(\d+)/.exec(await readFile(`/proc/${server.pid}/status`, 'utf8')) ?? []
      return Number(kb) / 1024
    }
    assert.equal((await server.ask(bodyOf(pngOf(200, 60, GREY)), 'ocr')).status, 200)
    const before = await peak()

    assert.equal((await server.ask(bodyOf(pngOf(7_000, 7_000, GREY)), 'ocr')).status, 200)

    // Its pixels take 187 MB.
    const taken = (await peak()) - before
    assert.ok(taken < 300, `${taken} MB`)
  })
})
