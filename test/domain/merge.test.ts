import assert from 'node:assert/strict'
import { faultOfMerge, MERGE_ARITY, weightsFor } from '../../domain/training/merge.ts'
import { slerpFactors } from '../../node-runtime/merge/recipes.ts'
import { trimOf } from '../../node-runtime/merge/ties.ts'
import type { MergeMethod } from '../../schemas/training-merge.ts'

const METHODS = Object.keys(MERGE_ARITY) as MergeMethod[]

describe('merge rules (10.5)', () => {
  const given = (method: MergeMethod, count: number, weights?: number[]) => {
    const { field } = MERGE_ARITY[method]
    return { adapters: 0, sources: 0, [field]: count, hasBase: true, weights }
  }

  it('require the number of models that each method specifies', () => {
    for (const method of METHODS) {
      const { field, least, most } = MERGE_ARITY[method]
      for (const count of [least, most]) assert.equal(faultOfMerge(method, given(method, count)), undefined)
      for (const count of [least - 1, most + 1]) {
        assert.deepEqual(faultOfMerge(method, given(method, count))?.path, [field])
      }
    }
  })

  it('let a negative weight subtract an adapter, but not a model', () => {
    assert.equal(faultOfMerge('adapter_merge', given('adapter_merge', 2, [1, -1])), undefined)
    assert.deepEqual(faultOfMerge('ties', given('ties', 2, [1, -1]))?.path, ['weights', 1])
  })

  it('default weights to 1, or to equal shares for dare', () => {
    assert.deepEqual(weightsFor('ties', undefined, 2), [1, 1])
    assert.deepEqual(weightsFor('dare', undefined, 4), [0.25, 0.25, 0.25, 0.25])
    assert.deepEqual(weightsFor('dare', [3, 4], 2), [3, 4])
  })
})

describe('follow the arc for perpendicular tensors, and the line for nearly parallel ones', () => {
  const factors = (aa: number, bb: number, ab: number, t: number) =>
    slerpFactors([{ sums: Float64Array.of(aa, bb, ab) }], t)

  it('follow the arc at right angles, and the line for nearly parallel tensors', () => {
    const { p, q } = factors(1, 1, 0, 0.5)
    assert.ok(Math.abs(p - Math.SQRT1_2) < 1e-12 && Math.abs(q - Math.SQRT1_2) < 1e-12)
    assert.deepEqual(factors(1, 1, 0.9999, 0.25), { p: 0.75, q: 0.25 })
  })

  it('fall back to the line for tensors that are all zero or contain no numbers', () => {
    assert.deepEqual(factors(0, 0, 0, 1).q, 1)
    assert.deepEqual(factors(Number.NaN, 1, Number.NaN, 0.5), { p: 0.5, q: 0.5 })
  })
})

describe('trimming', () => {
  const table = (counts: Record<number, number>) => {
    const all = new Uint32Array(32_768)
    for (const [magnitude, count] of Object.entries(counts)) all[Number(magnitude)] = count
    return all
  }

  it('keeps exactly the requested number of values, taking the first of equal ones', () => {
    const tables = [table({ 5: 2, 9: 1 }), table({ 5: 3, 9: 2 })]

    assert.deepEqual(trimOf(tables, 3), { threshold: 9, quotas: [1, 2] })
    assert.deepEqual(trimOf(tables, 6), { threshold: 5, quotas: [2, 1] })
    assert.deepEqual(trimOf(tables, 4), { threshold: 5, quotas: [1, 0] })
  })
})
