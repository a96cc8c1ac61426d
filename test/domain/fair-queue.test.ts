import assert from 'node:assert/strict'
import { FairQueue, type Ticket } from '../../domain/fair-queue.ts'

const always = () => true
const of = (accountId: string, keyId = 'k') => ({ accountId, keyId })

/** Serves a queue whose flows always have a request waiting, and returns the cost served by account and key. */
function served(
  flows: {
    account: string
    key?: string
    weights?: { accountWeight?: number; keyWeight?: number }
    cost: (nth: number) => number
  }[],
  { rounds, places = 1 }: { rounds: number; places?: number },
): Map<string, number> {
  const queue = new FairQueue<{ flow: (typeof flows)[number]; nth: number }>()
  const counts = new Map<string, number>()
  const push = (flow: (typeof flows)[number], nth: number) =>
    queue.push({ flow, nth }, { ...of(flow.account, flow.key), ...flow.weights })
  for (const flow of flows) for (let i = 0; i < 3; i++) push(flow, i)
  const running: { ticket: Ticket<{ flow: (typeof flows)[number]; nth: number }>; cost: number }[] = []
  for (let round = 0; round < rounds; round++) {
    while (running.length < places) {
      const next = queue.next(always, 10)
      assert(next)
      const { flow, nth } = next.request
      const cost = flow.cost(nth)
      running.push({ ticket: next.ticket, cost })
      push(flow, nth + 3)
      const name = `${flow.account}/${flow.key ?? 'k'}`
      counts.set(name, (counts.get(name) ?? 0) + cost)
    }
    // Requests don't end in the order in which they start.
    const [ended] = running.splice((round * 7) % places, 1)
    queue.end(ended!.ticket, ended!.cost)
  }
  return counts
}

const near = (actual: number, expected: number) =>
  assert(Math.abs(actual / expected - 1) < 0.1, `${actual} is not within 10 % of ${expected}`)

describe('the fair queue', () => {
  it('serves every account the same cost, regardless of the number and size of its requests', () => {
    const counts = served(
      [
        { account: 'a', cost: () => 100 },
        { account: 'b', cost: (nth) => 1 + (nth % 9) },
        { account: 'c', cost: (nth) => (nth % 5 === 0 ? 300 : 20) },
      ],
      { rounds: 6_000, places: 4 },
    )
    const total = [...counts.values()].reduce((sum, one) => sum + one, 0)
    for (const account of ['a', 'b', 'c']) near(counts.get(`${account}/k`)!, total / 3)
  })

  it('serves the keys of an account equally within its share, and follows weights within 10%', () => {
    const counts = served(
      [
        { account: 'a', key: 'one', cost: () => 50 },
        { account: 'a', key: 'two', cost: () => 7 },
        { account: 'a', key: 'four', cost: () => 30, weights: { keyWeight: 4 } },
        { account: 'b', cost: () => 20, weights: { accountWeight: 3 } },
      ],
      { rounds: 6_000, places: 3 },
    )
    near(counts.get('a/one')!, counts.get('a/two')!)
    near(counts.get('a/four')!, 4 * counts.get('a/one')!)
    near(counts.get('b/k')!, 3 * 6 * counts.get('a/one')!)
  })

  it('starts the first request of a new account at once, and gives an idle account no credit', () => {
    const queue = new FairQueue<string>()
    for (let i = 0; i < 200; i++) queue.push(`a${i}`, of('a'))
    const began = Array.from({ length: 50 }, () => queue.next(always, 1)!)
    for (const { ticket } of began) queue.end(ticket)
    queue.push('b0', of('b'))
    queue.push('b1', of('b'))
    queue.push('b2', of('b'))

    const order = Array.from({ length: 6 }, () => queue.next(always, 1)!.request)
    assert(order.slice(0, 2).includes('b0'))
    assert.deepEqual(
      order.filter((one) => one.startsWith('b')),
      ['b0', 'b1', 'b2'],
    )
    assert.equal(order.filter((one) => one.startsWith('a')).length, 3)
  })

  it('gives an account no credit for turns it missed during one long request', () => {
    const queue = new FairQueue<string>()
    queue.start(of('a'), 1)
    for (let i = 0; i < 1_000; i++) queue.push(`b${i}`, of('b'))
    for (let i = 0; i < 1_000; i++) queue.end(queue.next(always, 1)!.ticket)
    for (let i = 0; i < 100; i++) for (const account of ['a', 'b']) queue.push(`${account}${i}`, of(account))

    const order = Array.from({ length: 40 }, () => queue.next(always, 1)!.request)
    const ofA = order.filter((one) => one.startsWith('a')).length
    assert(ofA >= 18 && ofA <= 22, `${ofA} of 40`)
  })

  it("keeps the order within a key, skips requests that can't run, and forgets removed ones", () => {
    const queue = new FairQueue<string>()
    for (const name of ['x1', 'x2', 'x3']) queue.push(name, of('x'))
    queue.push('y1', of('y'))
    queue.remove('x2')
    assert.equal(queue.waitingOf('x'), 2)
    assert.equal(queue.next((name) => name === 'x3', 1)?.request, 'x3')
    assert.equal(
      queue.next(() => false, 1),
      undefined,
    )
    const rest = [queue.next(always, 1), queue.next(always, 1)]
    assert.deepEqual(
      rest.map((next) => next?.request),
      ['y1', 'x1'],
    )
    assert.equal(queue.size, 0)
    for (const next of rest) queue.end(next!.ticket)
    assert.equal(queue.isIdle, false)
  })

  it('does not starve any account when accounts come and go at random', () => {
    let seed = 7
    const random = () => (seed = (seed * 16_807) % 2_147_483_647) / 2_147_483_647
    const queue = new FairQueue<{ account: string; since: number }>()
    const running: Ticket<{ account: string; since: number }>[] = []
    let worst = 0
    for (let now = 0; now < 20_000; now++) {
      const account = random() < 0.7 ? 'flood' : `n${Math.floor(random() * 20)}`
      if (queue.waitingOf(account) < (account === 'flood' ? 200 : 3))
        queue.push({ account, since: now }, of(account))
      if (running.length === 4) queue.end(running.splice(Math.floor(random() * 4), 1)[0]!, 1 + random() * 100)
      const next = running.length < 4 ? queue.next(always, 50) : undefined
      if (next) {
        running.push(next.ticket)
        if (next.request.account !== 'flood') worst = Math.max(worst, now - next.request.since)
      }
    }
    assert(worst < 21 * 4 * 3, `a request waited for ${worst} others`)
  })
})
