import assert from 'node:assert/strict'
import { StreamTable } from '../../../platform/link/stream-table.ts'

describe('the stream table', () => {
  it('matches a map while streams come and go and some are long-lived', () => {
    const table = new StreamTable<{ of: number }>()
    const map = new Map<number, { of: number }>()
    // Starts near the maximum, beyond signed 32 bits, and wraps around.
    const first = 0xffff_fffe - 30_000
    for (let i = 0; i < 60_000; i++) {
      const stream = ((first + i) % 0xffff_fffe) + 1
      const value = { of: stream }
      table.set(stream, value)
      map.set(stream, value)
      const oldest = stream - (i % 3 === 0 ? 200 : 20)
      if (oldest % 1_000 !== 0) {
        table.delete(oldest)
        map.delete(oldest)
      }
      assert.equal(table.get(stream), value)
      assert.equal(table.has(oldest), map.has(oldest))
      assert.equal(table.size, map.size)
    }

    const byStream = (a: [number, unknown], b: [number, unknown]) => a[0] - b[0]
    assert.deepEqual(table.entries().toSorted(byStream), [...map].toSorted(byStream))
    for (const stream of map.keys()) table.delete(stream)
    assert.equal(table.size, 0)
    assert.deepEqual(table.entries(), [])
  })

  it('accepts a new value for a known stream', () => {
    const table = new StreamTable<string>()
    for (const stream of [1, 65, 129]) table.set(stream, 'old')
    for (const stream of [1, 65, 129]) table.set(stream, 'new')

    assert.equal(table.size, 3)
    assert.deepEqual(
      table.entries().map(([, value]) => value),
      ['new', 'new', 'new'],
    )
    table.clear()
    assert.equal(table.get(65), undefined)
  })
})
