import assert from 'node:assert/strict'
import { mock } from 'node:test'
import { withProgress } from '../../../platform/async/with-progress.ts'

describe('progress of long work', () => {
  beforeEach(() => mock.timers.enable({ apis: ['setInterval'] }))
  afterEach(() => mock.timers.reset())

  it('is reported every ten seconds until the work has ended', async () => {
    const lines: string[] = []
    const { promise, resolve } = Promise.withResolvers<number>()
    const work = withProgress(
      'building it',
      (line) => lines.push(line),
      () => promise,
    )

    mock.timers.tick(25_000)
    assert.equal(lines.length, 2)
    for (const line of lines) assert.match(line, /^still building it \(\d+ s\)$/)

    resolve(7)
    assert.equal(await work, 7)
    mock.timers.tick(60_000)
    assert.equal(lines.length, 2)
  })

  it('ends when the work fails', async () => {
    const lines: string[] = []
    const work = withProgress(
      'building it',
      (line) => lines.push(line),
      () => Promise.reject(new Error('no room')),
    )

    await assert.rejects(work, /no room/)
    mock.timers.tick(60_000)
    assert.deepEqual(lines, [])
  })
})
