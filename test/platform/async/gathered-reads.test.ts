import assert from 'node:assert/strict'
import { GatheredReads } from '../../../platform/async/gathered-reads.ts'

/** Reads that end when they are told to, with the ids of each. */
class Store {
  readonly asked: { ownerId: string; ids: readonly string[]; end: (err?: Error) => void }[] = []
  readonly reads = new GatheredReads<string>((ownerId, ids) => {
    const { promise, resolve, reject } = Promise.withResolvers<Map<string, string>>()
    const found = new Map(ids.filter((id) => id !== 'none').map((id) => [id, `${ownerId} ${id}`]))
    this.asked.push({ ownerId, ids, end: (err) => (err ? reject(err) : resolve(found)) })
    return promise
  })
}

describe('gathered reads', () => {
  it('read the first id at once, and together those that come meanwhile', async () => {
    const { reads, asked } = new Store()
    const first = reads.get('a', '1')
    const rest = ['2', '3', 'none', '2'].map((id) => reads.get('a', id))
    assert.equal(asked.length, 1)

    asked[0]!.end()
    assert.equal(await first, 'a 1')
    asked[1]!.end()

    assert.deepEqual(await Promise.all(rest), ['a 2', 'a 3', undefined, 'a 2'])
    assert.deepEqual(
      asked.map(({ ids }) => ids),
      [['1'], ['2', '3', 'none']],
    )
  })

  it('do not let one owner wait for another', async () => {
    const { reads, asked } = new Store()
    void reads.get('a', '1')
    const other = reads.get('b', '1')

    asked[1]!.end()

    assert.equal(await other, 'b 1')
  })

  it('fail all ids of a read, and none of the next one', async () => {
    const { reads, asked } = new Store()
    const first = reads.get('a', '1')
    const second = reads.get('a', '2')

    asked[0]!.end(new Error('the database is gone'))
    await assert.rejects(first, /is gone/)
    asked[1]!.end()

    assert.equal(await second, 'a 2')
    const third = reads.get('a', '3')
    asked[2]!.end()
    assert.equal(await third, 'a 3')
  })

  it('are bounded in their size', async () => {
    const { reads, asked } = new Store()
    const all = Array.from({ length: 100 }, (_, i) => reads.get('a', String(i)))

    for (let i = 0; i < 3; i++) {
      asked[i]!.end()
      await new Promise(setImmediate)
    }

    await Promise.all(all)
    assert.deepEqual(
      asked.map(({ ids }) => ids.length),
      [1, 64, 35],
    )
  })
})
