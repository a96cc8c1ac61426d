import assert from 'node:assert/strict'
import { largeRequest } from '../../../bench/plan/large-request.ts'
import { randomNumbers } from '../../../bench/random-numbers.ts'
import { planGraph } from '../../../domain/cohorts/plan-graph.ts'
import { costOfWay, timesOf, waysOf } from '../../../domain/cohorts/transfers.ts'

describe('plans of graphs', () => {
  it('take what is measured between the nodes of a pair, each way by itself', () => {
    const rateOf = (from: string, to: string) => (from === 'a' && to === 'b' ? 20 : undefined)
    for (const kind of ['json', 'embedding', 'kv_cache'] as const) {
      for (const mode of ['transfer', 'session'] as const) {
        for (const bytes of [1_000, 50_000_000]) {
          const ways = waysOf({ mode }, { kind, bytes, allowRelay: kind !== 'kv_cache' })
          const times = timesOf(ways, bytes, rateOf)
          for (const pair of [
            ['a', 'b'],
            ['b', 'a'],
            ['a', 'a'],
          ] as const) {
            const expected = costOfWay(ways, bytes, pair, rateOf)?.ms ?? Infinity
            assert.equal(times(pair[0], pair[1]), expected, `${kind} ${mode} ${bytes} ${pair.join()}`)
          }
        }
      }
    }
  })

  it('of the largest request are made before a gateway misses anything, and agree with their own times', () => {
    const input = largeRequest(randomNumbers(5), { nodes: 1_000, stages: 64, edges: 256 })
    const before = process.cpuUsage()
    const plan = planGraph(input)
    const { user } = process.cpuUsage(before)

    assert.ok(user < 5_000_000, `${user} µs of CPU`)
    assert.equal(plan.feasible, true, JSON.stringify(plan.reasons))
    const stages = new Map(plan.stages.map((stage) => [stage.stage_id, stage]))
    for (const { from, to, estimated_ms } of plan.edges) {
      const [producer, consumer] = [stages.get(from.stage_id)!, stages.get(to.stage_id)!]
      assert.ok(consumer.start_ms >= producer.end_ms + estimated_ms - 0.5)
      assert.ok(producer.slack_ms <= consumer.start_ms - producer.end_ms - estimated_ms + 0.5)
    }
  })
})
