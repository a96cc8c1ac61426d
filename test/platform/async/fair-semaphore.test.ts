import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { FairSemaphore, QueueFullError } from '../../../platform/async/fair-semaphore.ts'

const LIMITS = { most: 3, mostPerKey: 2, mostWaiting: 5 }

/** Requests turns for keys, and records the outcome of each. */
class Takers {
  readonly begun: string[] = []
  readonly refused: string[] = []
  readonly #turns = new FairSemaphore(LIMITS)
  readonly #held: { name: string; turn: Disposable }[] = []

  async take(names: readonly string[], signal = new AbortController().signal): Promise<void> {
    for (const name of names) void this.#one(name, signal)
    await setImmediate()
  }

  /** Ends the earliest turn of a name. */
  async end(name: string): Promise<void> {
    const at = this.#held.findIndex((held) => held.name === name)
    assert.notEqual(at, -1, `${name} holds no turn`)
    for (const { turn } of this.#held.splice(at, 1)) turn[Symbol.dispose]()
    await setImmediate()
  }

  async #one(name: string, signal: AbortSignal): Promise<void> {
    try {
      const turn = await this.#turns.take(name.slice(0, 1), signal)
      this.begun.push(name)
      this.#held.push({ name, turn })
    } catch (err) {
      this.refused.push(err instanceof QueueFullError ? `${name} full` : `${name} ${String(err)}`)
    }
  }
}

describe('a fair semaphore', () => {
  it('limits turns in total and per key', async () => {
    const takers = new Takers()

    await takers.take(['a1', 'a2', 'a3'])
    assert.deepEqual(takers.begun, ['a1', 'a2'])
    await takers.take(['b1', 'c1'])

    assert.deepEqual(takers.begun, ['a1', 'a2', 'b1'])
    assert.deepEqual(takers.refused, [])
  })

  it('grants a turn to the key with the fewest running turns, then to the key that has waited longest', async () => {
    const takers = new Takers()
    await takers.take(['a1', 'a2', 'b1', 'a3', 'a4', 'b2', 'c1'])

    await takers.end('a1')
    await takers.end('a2')
    await takers.end('b1')
    await takers.end('c1')

    assert.deepEqual(takers.begun.slice(3), ['c1', 'a3', 'b2', 'a4'])
  })

  it('rejects the last waiter in the longest queue when too many are waiting', async () => {
    const takers = new Takers()
    await takers.take(['a1', 'a2', 'b1', 'a3', 'a4', 'a5', 'a6', 'a7'])
    assert.deepEqual(takers.refused, [])

    await takers.take(['a8', 'c1', 'b2'])

    assert.deepEqual(takers.refused, ['a8 full', 'a7 full', 'a6 full'])
    await takers.end('b1')
    assert.equal(takers.begun.at(-1), 'c1')
  })

  it('rejects the newcomer when the maximum number of keys is waiting', async () => {
    const takers = new Takers()
    await takers.take(['a1', 'b1', 'c1', 'd1', 'e1', 'f1', 'g1', 'h1'])

    await takers.take(['i1', 'a2'])

    assert.deepEqual(takers.refused, ['i1 full', 'a2 full'])
  })

  it('grants a free turn at once, and counts it like any other', async () => {
    const turns = new FairSemaphore(LIMITS)
    const never = new AbortController().signal
    const [first, second] = [turns.takeFree('a')!, turns.takeFree('a')!]
    const waiting = turns.take('a', never)

    assert.equal(turns.takeFree('a'), undefined)
    const other = turns.takeFree('b')!
    assert.equal(turns.takeFree('c'), undefined)
    first[Symbol.dispose]()
    const third = await waiting
    assert.equal(turns.takeFree('a'), undefined)
    for (const turn of [first, second, third, other]) turn[Symbol.dispose]()
    assert.ok(turns.takeFree('a'))
  })

  it('skips waiters that have left, and ends each turn only once', async () => {
    const takers = new Takers()
    const leaves = new AbortController()
    await takers.take(['a1', 'a2'])
    await takers.take(['a3'], leaves.signal)
    await takers.take(['a4'])

    leaves.abort('left')
    await takers.end('a1')
    await takers.take(['a5'], AbortSignal.abort('gone'))

    assert.deepEqual(takers.begun, ['a1', 'a2', 'a4'])
    assert.deepEqual(takers.refused.toSorted(), ['a3 left', 'a5 gone'])
    const turns = new FairSemaphore(LIMITS)
    const signal = new AbortController().signal
    const first = await turns.take('a', signal)
    first[Symbol.dispose]()
    first[Symbol.dispose]()
    await turns.take('a', signal)
    await turns.take('a', signal)
    await assert.rejects(turns.take('a', AbortSignal.timeout(20)), { name: 'TimeoutError' })
  })
})
