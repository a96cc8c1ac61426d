import assert from 'node:assert/strict'
import type { BuilderClient } from '../../../embedded/demo/client.ts'
import { Progress } from '../../../embedded/demo/progress.ts'
import { train } from '../../../embedded/demo/steps.ts'

describe('the progress of the demo', () => {
  it('tells every step and keeps its result', async () => {
    let printed = ''
    const progress = new Progress(new AbortController().signal, (text) => (printed += text))

    const value = await progress.step('Count', () => Promise.resolve(7), String)

    assert.equal(value, 7)
    assert.equal(printed, '\nCount ...\n')
    assert.deepEqual(
      progress.rows.map(([name, result]) => [name, result]),
      [['Count', '7']],
    )
  })

  it('is silent once it is asked to stop: no more epochs, no further step', async () => {
    const stop = new AbortController()
    let printed = ''
    const progress = new Progress(stop.signal, (text) => (printed += text))
    const epochs = [1, 2, 3].map((epoch) => ({ epoch, train_loss: 1, val_loss: 1 }))
    let polls = 0
    const api = {
      post: () => Promise.resolve({ job_id: 'j' }),
      get: (path: string) => {
        if (!path.endsWith('/metrics'))
          return Promise.resolve({ status: polls < 3 ? 'running' : 'completed' })
        polls += 1
        if (polls === 2) stop.abort(new Error('stopped'))
        return Promise.resolve({ metrics: { epochs: epochs.slice(0, polls) } })
      },
    } as unknown as BuilderClient

    await progress.step(
      'Train',
      () => train(api, 'd', progress.say),
      ({ run }) => run.status,
    )

    assert.equal(polls, 4)
    assert.match(printed, /epoch {3}1/)
    assert.doesNotMatch(printed, /epoch {3}[23]/)
    await assert.rejects(
      progress.step('Next', () => assert.fail('it began'), String),
      /stopped/,
    )
    assert.doesNotMatch(printed, /Next/)
  })
})
