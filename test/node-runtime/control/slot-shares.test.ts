import assert from 'node:assert/strict'
import { PLACED_SLOTS } from '../../../domain/placement/node-queues.ts'
import { SlotShares } from '../../../node-runtime/control/slot-shares.ts'
import { QueueFullError } from '../../../platform/async/fair-semaphore.ts'

describe('slot shares', () => {
  /** Takes as many slots as an account can get, up to `most`. */
  const takeAll = (shares: SlotShares, key: string, most = PLACED_SLOTS): Disposable[] => {
    const taken: Disposable[] = []
    while (taken.length < most)
      try {
        taken.push(shares.take(key))
      } catch (err) {
        assert.ok(err instanceof QueueFullError)
        break
      }
    return taken
  }

  it('give a single account half of the slots', () => {
    assert.equal(takeAll(new SlotShares(), 'a').length, PLACED_SLOTS / 2)
  })

  it('leave slots for later accounts, and a quarter of the slots for other work', () => {
    const shares = new SlotShares()
    const counts = ['a', 'b', 'c', 'd', 'e'].map((key) => takeAll(shares, key).length)

    assert.deepEqual(counts, [64, 22, 7, 2, 1])
    assert.equal(
      counts.reduce((sum, count) => sum + count),
      (3 * PLACED_SLOTS) / 4,
    )
  })

  it('return their slots to others when disposed, and only once', () => {
    const shares = new SlotShares()
    const [first, ...rest] = takeAll(shares, 'a')
    for (const _ of [1, 2]) first![Symbol.dispose]()

    assert.equal(takeAll(shares, 'a').length, 1)
    for (const one of rest) one[Symbol.dispose]()
    assert.equal(takeAll(shares, 'b').length, PLACED_SLOTS / 2)
  })

  it('give at least one slot, however few there are', () => {
    assert.deepEqual(
      [1, 2, 3].map((slots) => takeAll(new SlotShares(slots), 'a').length),
      [1, 1, 2],
    )
  })
})
