import assert from 'node:assert/strict'
import { withVector } from '../../../domain/cohorts/vector-input.ts'

describe('a vector in an input', () => {
  it('is a list of numbers where there is no object', () => {
    assert.deepEqual(withVector({}, '/vector', [1, 2]), { vector: [1, 2] })
    assert.deepEqual(withVector({ vector: [0] }, '/vector', [1, 2]), { vector: [1, 2] })
  })

  it('fills the columns of an object in the natural order of their names', () => {
    const columns = Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`x${11 - i}`, 0]))
    const filled = withVector(
      { instances: [columns] },
      '/instances/0',
      Array.from({ length: 12 }, (_, i) => i),
    )

    assert.deepEqual(filled, {
      instances: [Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`x${i}`, i]))],
    })
  })

  it('has no place among another number of columns', () => {
    assert.equal(withVector({ row: { a: 0 } }, '/row', [1, 2]), undefined)
  })
})
