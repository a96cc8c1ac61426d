import assert from 'node:assert/strict'
import { type IdleModel, planEviction } from '../../node-runtime/eviction.ts'

const model = (modelKey: string, memoryMb: number, lastUsed: number): IdleModel => ({
  modelKey,
  memoryMb,
  lastUsed,
})
const keys = (models: IdleModel[] | undefined) => models?.map(({ modelKey }) => modelKey).toSorted()

describe('eviction', () => {
  it('takes nothing when the model fits', () => {
    assert.deepEqual(planEviction(100, 100, [model('a', 50, 1)]), [])
  })

  it('takes the model that was not used for longest', () => {
    const idle = [model('new', 50, 9), model('old', 50, 1), model('middle', 50, 5)]

    assert.deepEqual(keys(planEviction(100, 50, idle)), ['old'])
  })

  it('spares small old models when the next one alone makes the room', () => {
    const idle = [model('small', 10, 1), model('large', 200, 2)]

    assert.deepEqual(keys(planEviction(150, 0, idle)), ['large'])
  })

  it('takes nothing when even everything would not do', () => {
    assert.equal(planEviction(500, 100, [model('a', 50, 1), model('b', 50, 2)]), undefined)
  })

  it('always makes room if it can, never takes one too many, never takes a newer one for an older of its size', () => {
    for (let round = 0; round < 3_000; round++) {
      const idle = Array.from({ length: whole(8) }, (_, i) => model(`m${i}`, 1 + whole(50), whole(1_000)))
      const [needed, free] = [whole(200), whole(100)]
      const all = idle.reduce((sum, { memoryMb }) => sum + memoryMb, free)

      const chosen = planEviction(needed, free, idle)

      if (all < needed) {
        assert.equal(chosen, undefined)
        continue
      }
      assert.ok(chosen)
      const made = chosen.reduce((sum, { memoryMb }) => sum + memoryMb, free)
      assert.ok(made >= needed)
      for (const one of chosen) assert.ok(made - one.memoryMb < needed, 'one would have done without')
      const spared = idle.filter((one) => !chosen.includes(one))
      for (const taken of chosen) {
        const older = spared.find((one) => one.memoryMb === taken.memoryMb && one.lastUsed < taken.lastUsed)
        assert.equal(older, undefined)
      }
    }
  })
})

const whole = (below: number) => Math.floor(Math.random() * below)
