import assert from 'node:assert/strict'
import { withVector, withVectors } from '../../../domain/cohorts/vector-input.ts'

describe('a vector in an input', () => {
  it('becomes a list of numbers when the path holds no object', () => {
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

  it('is rejected when the number of columns differs', () => {
    assert.equal(withVector({ row: { a: 0 } }, '/row', [1, 2]), undefined)
    assert.equal(withVectors({ rows: [{ a: 0, b: 0 }] }, '/rows', [[1, 2], [3]]), undefined)
  })

  it('becomes one table row per text when the list contains one object', () => {
    const table = { instances: [{ x1: 0, x0: 0 }] }
    assert.deepEqual(
      withVectors(table, '/instances', [
        [1, 2],
        [3, 4],
      ]),
      {
        instances: [
          { x0: 1, x1: 2 },
          { x0: 3, x1: 4 },
        ],
      },
    )
    assert.deepEqual(withVectors(table, '/instances', [[1, 2]]), { instances: [{ x0: 1, x1: 2 }] })
    assert.deepEqual(withVectors({}, '/list', [[1], [2]]), { list: [[1], [2]] })
    assert.deepEqual(withVectors({}, '/one', [[1]]), { one: [1] })
    assert.deepEqual(withVectors({ row: { a: 0 } }, '/row', [[1]]), { row: { a: 1 } })
  })
})
