import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { GatheredReads } from '../../../platform/async/gathered-reads.ts'

/** Reads that the test completes by hand, with the ids of each. */
class Store {
  readonly batches: { ownerId: string; ids: readonly string[]; end: (err?: Error) => void }[] = []
  readonly reads = new GatheredReads<string>((ownerId, ids) => {
    const { promise, resolve, reject } = Promise.withResolvers<Map<string, string>>()
    const found = new Map(ids.filter((id) => id !== 'none').map((id) => [id, `${ownerId} ${id}`]))
    this.batches.push({ ownerId, ids, end: (err) => (err ? reject(err) : resolve(found)) })
    return promise
  })
}

describe('gathered reads', () => {
  it('share one read when they are requested in the same turn of the event loop', async () => {
    const { reads, batches: asked } = new Store()
    const all = ['1', '2', 'none', '2'].map((id) => reads.get('a', id))
    await setImmediate()

    asked[0]!.end()

    assert.deepEqual(await Promise.all(all), ['a 1', 'a 2', undefined, 'a 2'])
    assert.deepEqual(
      asked.map(({ ids }) => ids),
      [['1', '2', 'none']],
    )
  })

  it('wait neither for other owners nor for a hanging read', async () => {
    const { reads, batches: asked } = new Store()
    void reads.get('a', '1')
    await setImmediate()
    const [own, other] = [reads.get('a', '2'), reads.get('b', '1')]
    await setImmediate()

    for (const { end } of asked.slice(1)) end()

    assert.deepEqual(await Promise.all([own, other]), ['a 2', 'b 1'])
  })

  it('fail together, without failing other reads', async () => {
    const { reads, batches: asked } = new Store()
    const [first, second] = [reads.get('a', '1'), reads.get('a', '2')]
    await setImmediate()
    const third = reads.get('a', '3')
    await setImmediate()

    asked[0]!.end(new Error('the database is gone'))
    asked[1]!.end()

    await assert.rejects(first, /is gone/)
    await assert.rejects(second, /is gone/)
    assert.equal(await third, 'a 3')
  })

  it('are limited in size', async () => {
    const { reads, batches: asked } = new Store()
    const all = Array.from({ length: 100 }, (_, i) => reads.get('a', String(i)))
    await setImmediate()

    for (const { end } of asked) end()

    assert.deepEqual(
      await Promise.all(all),
      Array.from({ length: 100 }, (_, i) => `a ${i}`),
    )
    assert.deepEqual(
      asked.map(({ ids }) => ids.length),
      [64, 36],
    )
  })
})
