import assert from 'node:assert/strict'
import { bestOf } from '../../console/src/parts/runs/curves.ts'

const epochs = (...losses: number[]) =>
  losses.map((val_loss, at) => ({ epoch: at + 1, train_loss: 1, val_loss }))

describe("a run's losses", () => {
  it('name the best epoch only if it was long before the last one', () => {
    assert.equal(bestOf(epochs(5, 3, 4, 4, 4))?.epoch, 2)
    assert.equal(bestOf(epochs(5, 4, 3, 2, 2.1)), undefined)
    assert.equal(bestOf([]), undefined)
  })
})
