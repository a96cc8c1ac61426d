import assert from 'node:assert/strict'
import type { Hearth } from '../../../client/index.ts'
import { Progress } from '../../../embedded/demo/progress.ts'
import { train } from '../../../embedded/demo/steps.ts'

describe('demo progress', () => {
  it('prints every step with its result and stores it', async () => {
    let printed = ''
    const progress = new Progress(new AbortController().signal, (text) => (printed += text))

    const value = await progress.step('Count', () => Promise.resolve(7), String)

    assert.equal(value, 7)
    assert.equal(printed, '\nCount ...\n  7\n')
    assert.deepEqual(
      progress.rows.map(([name, result]) => [name, result]),
      [['Count', '7']],
    )
  })

  it('prints no more epochs or steps after a stop request', async () => {
    const stop = new AbortController()
    let printed = ''
    const progress = new Progress(stop.signal, (text) => (printed += text))
    const epochs = [1, 2, 3].map((epoch) => ({ epoch, train_loss: 1, val_loss: 1 }))
    const runs = {
      create: () => Promise.resolve({ job_id: 'j' }),
      async *stream() {
        for (const data of epochs) {
          if (data.epoch === 2) stop.abort(new Error('stopped'))
          yield await Promise.resolve({ event: 'metric', data })
        }
        yield { event: 'done', data: { status: 'completed' } }
      },
    } as unknown as Hearth['runs']

    await progress.step(
      'Train',
      () => train({ runs }, 'd', progress.say),
      ({ run }) => run.status,
    )

    assert.equal(progress.rows.at(-1)?.[1], 'completed')
    assert.match(printed, /epoch {3}1/)
    assert.doesNotMatch(printed, /epoch {3}[23]/)
    await assert.rejects(
      progress.step('Next', () => assert.fail('it began'), String),
      /stopped/,
    )
    assert.doesNotMatch(printed, /Next/)
  })
})
