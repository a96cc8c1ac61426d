import assert from 'node:assert/strict'
import { durableOf, FROM_GATEWAYS, ServerTurns } from '../../../node-runtime/models/server-turns.ts'

const never = new AbortController().signal

describe('turns at a model server', () => {
  it('give gateways three of four turns while durable work from two accounts is also waiting, and give each account its share', async () => {
    const turns = new ServerTurns(1)
    const served: string[] = []
    const blocker = await turns.take(FROM_GATEWAYS, never)
    const work = async (name: string, requester: Parameters<ServerTurns['take']>[0]) => {
      using _turn = await turns.take(requester, never)
      served.push(name)
    }
    const all = [
      ...Array.from({ length: 40 }, () => work('a', durableOf('a'))),
      ...Array.from({ length: 40 }, () => work('gateway', FROM_GATEWAYS)),
      ...Array.from({ length: 4 }, () => work('b', durableOf('b'))),
    ]
    assert.equal(turns.waitingFromGateways, 40)
    blocker[Symbol.dispose]()
    await Promise.all(all)

    const count = (name: string) => served.slice(0, 32).filter((one) => one === name).length
    assert.deepEqual([count('gateway'), count('a'), count('b')], [24, 4, 4])
    assert.equal(served.length, 84)
  })

  it('never exceed the concurrency, and drop a request whose caller disconnects', async () => {
    const turns = new ServerTurns(2)
    const leaving = new AbortController()
    const held = [await turns.take(durableOf(), never), await turns.take(FROM_GATEWAYS, never)]
    let hasBegun = false
    const released = turns.turn(FROM_GATEWAYS, () => (hasBegun = true))
    released.enter()
    const cancelled = turns.take(durableOf('x'), leaving.signal)
    const next = turns.take(durableOf('y'), never)
    released[Symbol.dispose]()
    leaving.abort(new Error('left'))
    await assert.rejects(cancelled, /left/)

    held[0]![Symbol.dispose]()
    held[0]![Symbol.dispose]()
    const third = await next
    assert.equal(hasBegun, false)
    assert.equal(turns.waitingFromGateways, 0)
    let isFourth = false
    const fourth = turns.turn(FROM_GATEWAYS, () => (isFourth = true))
    fourth.enter()
    assert.equal(isFourth, false)
    third[Symbol.dispose]()
    assert.equal(isFourth, true)
  })
})
