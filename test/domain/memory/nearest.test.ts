import assert from 'node:assert/strict'
import { unitVector, VectorIndex } from '../../../domain/memory/nearest.ts'

const unit = (...values: number[]) => unitVector(values) ?? new Float32Array()

describe('VectorIndex', () => {
  function indexOf(count: number): VectorIndex {
    const index = new VectorIndex()
    for (let i = 0; i < count; i++)
      index.add({ id: `e${i}`, version: i }, unit(Math.cos(i / count), Math.sin(i / count), 0, 0, 0))
    return index
  }

  it('returns entries ordered by cosine similarity', () => {
    const index = indexOf(500)

    assert.deepEqual(index.nearest(unit(1, 0, 0, 0, 0), 3), ['e0', 'e1', 'e2'])
    assert.deepEqual(index.nearest(unit(0, 1, 0, 0, 0), 2), ['e499', 'e498'])
    assert.equal(index.size, 500)
  })

  it('omits dropped entries', () => {
    const index = indexOf(4)
    index.drop(['e1', 'unknown'])

    assert.deepEqual(index.nearest(unit(1, 0, 0, 0, 0), 9), ['e0', 'e2', 'e3'])
  })

  it('omits entries with a later version', () => {
    const index = indexOf(500)

    assert.deepEqual(index.nearest(unit(0, 1, 0, 0, 0), 2, 7), ['e7', 'e6'])
    assert.deepEqual(index.nearest(unit(0, 1, 0, 0, 0), 2, -1), [])
  })

  it('ignores vectors of a different length', () => {
    const index = indexOf(3)
    index.add({ id: 'other', version: 9 }, unit(1, 0))

    assert.equal(index.size, 3)
    assert.deepEqual(index.nearest(unit(1, 0), 3), [])
  })

  it('normalizes vectors to unit length and rejects non-numeric ones', () => {
    assert.deepEqual(
      [...unit(3, 4)].map((value) => value.toFixed(3)),
      ['0.600', '0.800'],
    )
    for (const bad of [undefined, [], [0, 0], ['a'], [Number.NaN], { 0: 1 }])
      assert.equal(unitVector(bad), undefined)
  })
})
