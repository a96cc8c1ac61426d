import assert from 'node:assert/strict'
import {
  type IdleModel,
  planEviction,
  chooseEviction,
  type PooledModel,
} from '../../../node-runtime/memory/eviction.ts'

const model = (modelKey: string, memoryMb: number, lastUsed: number): IdleModel => ({
  modelKey,
  memoryMb,
  lastUsed,
})
const keys = (models: IdleModel[] | undefined) => models?.map(({ modelKey }) => modelKey).toSorted()

describe('eviction', () => {
  it('evicts nothing when the model fits', () => {
    assert.deepEqual(planEviction(100, 100, [model('a', 50, 1)]), [])
  })

  it('evicts the least recently used model', () => {
    const idle = [model('new', 50, 9), model('old', 50, 1), model('middle', 50, 5)]

    assert.deepEqual(keys(planEviction(100, 50, idle)), ['old'])
  })

  it('spares small old models when the next one alone frees enough', () => {
    const idle = [model('small', 10, 1), model('large', 200, 2)]

    assert.deepEqual(keys(planEviction(150, 0, idle)), ['large'])
  })

  it('evicts nothing when even evicting all models would not free enough', () => {
    assert.equal(planEviction(500, 100, [model('a', 50, 1), model('b', 50, 2)]), undefined)
  })

  it('frees enough if possible, evicts as few models as needed, and evicts older models of the same size first', () => {
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
      for (const one of chosen) assert.ok(made - one.memoryMb < needed, 'a victim was evicted unnecessarily')
      const spared = idle.filter((one) => !chosen.includes(one))
      for (const taken of chosen) {
        const older = spared.find((one) => one.memoryMb === taken.memoryMb && one.lastUsed < taken.lastUsed)
        assert.equal(older, undefined)
      }
    }
  })
})

describe('eviction on several GPUs', () => {
  const pooled = (modelKey: string, heldByPool: number[], lastUsed: number): PooledModel => ({
    ...model(
      modelKey,
      heldByPool.reduce((sum, mb) => sum + mb, 0),
      lastUsed,
    ),
    heldByPool,
  })
  const plan = (neededMb: number, count: number, free: number[], idle: PooledModel[]) => {
    const found = chooseEviction({ neededMb, count }, free, idle)
    return found && [found.pools, found.victims.map(({ modelKey }) => modelKey).toSorted()]
  }

  it('never combines the memory of two GPUs', () => {
    assert.equal(plan(20, 1, [12, 12], []), undefined)
    assert.equal(plan(20, 1, [4, 4], [pooled('a', [8, 0], 1), pooled('b', [0, 8], 2)]), undefined)
    assert.deepEqual(plan(20, 2, [12, 12], []), [[0, 1], []])
    assert.equal(plan(20, 2, [24, 8], []), undefined)
    assert.equal(plan(8, 4, [80, 80], []), undefined)
  })

  it('spares the large GPU for models that fit nowhere else', () => {
    assert.deepEqual(plan(6, 1, [24, 8], []), [[1], []])
    assert.deepEqual(plan(10, 1, [24, 8], []), [[0], []])
    assert.deepEqual(plan(160, 2, [100, 80, 90, 80], []), [[1, 3], []])
  })

  it('evicts from a single GPU, the one with the least recently used models', () => {
    const idle = [pooled('a', [12, 0], 5), pooled('b', [0, 6], 1), pooled('c', [0, 6], 3)]

    assert.deepEqual(plan(10, 1, [0, 0], idle), [[1], ['b', 'c']])
    assert.deepEqual(plan(10, 1, [0, 4], idle), [[1], ['b']])
    assert.deepEqual(plan(24, 2, [0, 0], idle), [
      [0, 1],
      ['a', 'b', 'c'],
    ])
  })

  it('evicts a model that spans several GPUs only once', () => {
    const idle = [pooled('split', [10, 10], 9), pooled('a', [6, 0], 1), pooled('b', [0, 6], 1)]

    assert.deepEqual(plan(20, 2, [0, 0], idle), [[0, 1], ['split']])
  })

  it('frees enough for each part if possible, and never evicts more models than needed', () => {
    for (let round = 0; round < 3_000; round++) {
      const free = Array.from({ length: 1 + whole(5) }, () => whole(80))
      const idle = Array.from({ length: whole(7) }, (_, i) =>
        pooled(
          `m${i}`,
          free.map(() => (whole(2) ? whole(40) : 0)),
          whole(1_000),
        ),
      )
      const [neededMb, count] = [1 + whole(200), 1 + whole(4)]
      const partMb = neededMb / count
      const room = (pool: number, without: PooledModel[]) =>
        without.reduce((sum, { heldByPool }) => sum + (heldByPool[pool] ?? 0), free[pool] ?? 0)
      const isAble = free.filter((_, pool) => room(pool, idle) >= partMb).length >= count

      const found = chooseEviction({ neededMb, count }, free, idle)

      assert.equal(found !== undefined, isAble)
      if (!found) continue
      assert.equal(new Set(found.pools).size, count)
      const fits = (victims: PooledModel[]) => found.pools.every((pool) => room(pool, victims) >= partMb)
      assert.ok(fits([...found.victims]))
      for (const one of found.victims) {
        assert.ok(!fits(found.victims.filter((other) => other !== one)), 'a victim was evicted unnecessarily')
      }
      const needsNone = free.filter((mb) => mb >= partMb).length >= count
      if (needsNone) assert.deepEqual(found.victims, [])
    }
  })
})

const whole = (below: number) => Math.floor(Math.random() * below)
