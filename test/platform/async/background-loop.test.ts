import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { BackgroundLoop } from '../../../platform/async/background-loop.ts'
import { until } from '../../support/assertions/until.ts'

const HOUR = 3_600_000
const never = (err: unknown) => assert.fail(String(err))

describe('a background loop', () => {
  it('runs repeatedly, with a pause after each run and never twice at once', async () => {
    let [runs, atOnce, most] = [0, 0, 0]
    const work = async () => {
      most = Math.max(most, ++atOnce)
      await sleep(5)
      atOnce--
      runs++
    }
    await using loop = new BackgroundLoop(work, { everyMs: 1, onError: never }).start()
    for (let i = 0; i < 10; i++) void loop.run()

    await until(() => runs >= 5)
    assert.equal(most, 1)
  })

  it('runs once more for callers that request it during a run, and resolves their requests afterwards', async () => {
    const steps: string[] = []
    const { promise: gate, resolve: open } = Promise.withResolvers<void>()
    const work = async () => {
      steps.push('begins')
      await gate
      steps.push('ends')
    }
    await using loop = new BackgroundLoop(work, { everyMs: HOUR, onError: never })
    const first = loop.run()
    const others = [loop.run(), loop.run()]
    open()
    await Promise.all([first, ...others])

    assert.deepEqual(steps, ['begins', 'ends', 'begins', 'ends'])
    void loop.run()
    assert.equal(steps.length, 5)
  })

  it('reports the error of a run, and continues', async () => {
    const errors: unknown[] = []
    const work = () => Promise.reject(new Error('not now'))
    await using _loop = new BackgroundLoop(work, { everyMs: 1, onError: (err) => errors.push(err) }).start()

    await until(() => errors.length >= 3)
  })

  it('waits for the current run on disposal, and does not run again', async () => {
    let runs = 0
    const loop = new BackgroundLoop(
      async () => {
        await sleep(20)
        runs++
      },
      { everyMs: 1, onError: never },
    )
    void loop.run()
    void loop.run()
    await loop[Symbol.asyncDispose]()
    assert.equal(runs, 1)

    await loop.run()
    await sleep(10)
    assert.equal(runs, 1)
  })
})
