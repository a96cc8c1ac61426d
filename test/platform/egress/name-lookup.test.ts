import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { NameLookup } from '../../../platform/egress/name-lookup.ts'

describe('NameLookup', () => {
  const answer = ['93.184.215.14']

  it('queries each time, but shares one query among concurrent callers', async () => {
    let questions = 0
    const names = new NameLookup(async () => (questions++, answer))

    await Promise.all([names.addressesOf('a.com', 'a'), names.addressesOf('a.com', 'b')])
    await names.addressesOf('a.com', 'a')

    assert.equal(questions, 2)
  })

  /** Counts the peak number of concurrent queries, in total and per kind of name. */
  const counting = (isSlow: (hostname: string, nth: number) => boolean) => {
    const now = new Map<string, number>()
    const most = new Map<string, number>()
    const lookupCounts = new Map<string, number>()
    const resolve = async (hostname: string) => {
      const kind = hostname.split('-')[0] ?? ''
      const nth = (lookupCounts.get(hostname) ?? 0) + 1
      lookupCounts.set(hostname, nth)
      now.set(kind, (now.get(kind) ?? 0) + 1)
      most.set(kind, Math.max(most.get(kind) ?? 0, now.get(kind) ?? 0))
      await sleep(isSlow(hostname, nth) ? 60 : 0)
      now.set(kind, (now.get(kind) ?? 0) - 1)
      return answer
    }
    return { resolve, most }
  }
  const named = (kind: string, count: number) => Array.from({ length: count }, (_, i) => `${kind}-${i}.com`)

  it('queues new names, and lets names known to be fast through', async () => {
    const { resolve, most } = counting((hostname) => hostname.startsWith('new'))
    const names = new NameLookup(resolve, { slowMs: 50, slowAtOnce: 3, ownerAtOnce: 100 })
    await names.addressesOf('quick-0.com', 'a')

    const all = Promise.all(named('new', 9).map((name) => names.addressesOf(name, 'a')))
    const from = performance.now()
    await names.addressesOf('quick-0.com', 'b')
    const took = performance.now() - from
    await all

    assert.equal(most.get('new'), 3)
    assert.ok(took < 50, `a quick name took ${took} ms`)
  })

  it("limits one owner's concurrent queries, however its names behaved before", async () => {
    const { resolve, most } = counting((_, nth) => nth % 2 === 0)
    const names = new NameLookup(resolve, { slowMs: 50, slowAtOnce: 6, ownerAtOnce: 4 })
    const mine = named('mine', 40)
    const ask = () => Promise.allSettled(mine.map((name) => names.addressesOf(name, 'a')))
    await ask()
    const again = ask()
    await sleep(20)

    const from = performance.now()
    assert.deepEqual(await names.addressesOf('other-0.com', 'b'), answer)
    assert.ok(performance.now() - from < 50)
    await again
    assert.ok((most.get('mine') ?? 0) <= 4)
  })

  it('treats a slow name as slow until it was fast several times', async () => {
    let wait = 60
    const names = new NameLookup(() => sleep(wait, answer), {
      slowMs: 50,
      slowAtOnce: 1,
      quickAgainAfter: 2,
      resolveMs: 80,
    })
    await names.addressesOf('a.com', 'a')
    wait = 0
    await names.addressesOf('a.com', 'a')
    wait = 60
    const both = () =>
      Promise.allSettled([names.addressesOf('a.com', 'a'), names.addressesOf('new.com', 'b')])
    const statuses = (await both()).map(({ status }) => status)

    assert.deepEqual(statuses, ['fulfilled', 'rejected'])
    wait = 0
    await sleep(100)
    for (let i = 0; i < 4; i++) await names.addressesOf('a.com', 'a')
    wait = 40
    assert.deepEqual(
      (await both()).map(({ status }) => status),
      ['fulfilled', 'fulfilled'],
    )
  })

  it('gives up on a name when no answer arrives in time', async () => {
    const names = new NameLookup(() => new Promise(() => {}), { resolveMs: 50 })

    await assert.rejects(names.addressesOf('a.com', 'a'), /not within 50 ms/)
  })
})
