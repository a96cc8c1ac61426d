import assert from 'node:assert/strict'
import { EngineBudget, sumOf } from '../../../node-runtime/models/engine-budget.ts'
import { until } from '../../support/assertions/until.ts'
import { startApi } from '../../support/servers/api.ts'
import { ChatApi, FAKE_LLM_SERVER, startChatNode } from '../../support/servers/chat-api.ts'

const RUNS = 3
const COUNTS = { path: '/metrics', running: 'fake:running', waiting: 'fake:waiting' }

describe('EngineBudget', () => {
  it('shrinks to the number of running requests while others queue in the engine, and grows while it is exhausted', () => {
    const budget = new EngineBudget(16)
    const after = (running: number, waiting: number) => {
      budget.observe({ running, waiting })
      return budget.requests
    }

    // The engine admits a burst step by step.
    assert.deepEqual([after(2, 14), after(6, 10), after(9, 7)], [16, 16, 16])
    assert.deepEqual([after(9, 7), after(5, 11)], [16, 8])
    assert.equal(after(5, 11), 6)
    assert.equal(after(5, 1), 8)
    assert.equal(after(2, 0), 8)
    assert.equal(after(8, 0), 10)
    assert.deepEqual([after(1, 3), after(1, 3), after(1, 3), after(1, 3)], [10, 5, 3, 2])
    assert.deepEqual(Array.from({ length: 20 }, () => after(100, 0)).at(-1), 16)
  })

  it('stays the same while the engine runs nothing, and at most halves at a time', () => {
    const budget = new EngineBudget(256)
    const after = (running: number, waiting: number) => {
      budget.observe({ running, waiting })
      return budget.requests
    }

    // The engine is in its first prefill; later it stalls.
    assert.deepEqual([after(0, 40), after(0, 60), after(0, 80)], [256, 256, 256])
    assert.deepEqual([after(64, 20), after(0, 84), after(0, 84), after(64, 20)], [256, 256, 256, 256])
    assert.deepEqual([after(8, 90), after(8, 90), after(8, 90), after(8, 90)], [256, 128, 64, 32])
    assert.deepEqual([after(8, 90), after(8, 90), after(8, 90)], [16, 9, 9])
  })

  it('is read from the gauges of a metrics page, summed over all labels', () => {
    const page = '# HELP g x\ng{a="1 2"} 3.0\ng{a="b"} 4 1700000000\ng_total 9\nh 1e1\n'

    assert.equal(sumOf(page, 'g'), 7)
    assert.equal(sumOf(page, 'h'), 10)
    assert.ok(Number.isNaN(sumOf(page, 'i')))
  })

  it('holds requests at the gateway that the engine would only queue', async () => {
    const api = await startApi()
    const node = await startChatNode(api, {
      concurrency: 32,
      server: { ...FAKE_LLM_SERVER, engineCounts: COUNTS },
    })
    await using chat = new ChatApi(api, node, await api.account())
    const endpoint = await chat.warm({}, [node], { runs: RUNS })
    let isOver = false
    const clients = Array.from({ length: 20 }, async () => {
      const statuses = new Set<number>()
      while (!isOver) statuses.add((await chat.chat(endpoint.id, { fake: { delay_ms: 100 } })).status)
      return statuses
    })

    // The budget halves at most once a second, and fluctuates by a request or two once it fits.
    await until(async () => {
      const { in_flight: inFlight } = await chat.stats(endpoint)
      const budget = node.parts.models.report()[0]!.max_concurrency!
      const waiting = chat.api.services.places.waiting(endpoint.model_key)
      return budget >= RUNS && budget <= RUNS + 3 && inFlight <= RUNS + 3 && waiting >= 12
    }, 30_000)
    isOver = true
    assert.deepEqual(
      (await Promise.all(clients)).map((statuses) => [...statuses]),
      clients.map(() => [200]),
    )
  })
})
