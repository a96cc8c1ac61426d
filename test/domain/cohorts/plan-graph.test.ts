import assert from 'node:assert/strict'
import { largeRequest } from '../../../bench/plan/large-request.ts'
import { randomNumbers } from '../../../bench/random-numbers.ts'
import { planGraph } from '../../../domain/cohorts/plan-graph.ts'
import { costOfWay, timesOf, waysOf } from '../../../domain/cohorts/transfers.ts'

describe('planGraph', () => {
  it('uses the rate measured between two nodes, separately for each direction', () => {
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

  it('plans the largest request without blocking a gateway for too long, with consistent times', () => {
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

  it('reports how many nodes are online when each stage needs its own node', () => {
    const input = largeRequest(randomNumbers(5), { nodes: 2, stages: 3, edges: 2 })
    const constraints = { ...input.graph.constraints, spread: true }
    const { reasons } = planGraph({ ...input, graph: { ...input.graph, constraints } })
    assert.deepEqual(
      reasons.map(({ code }) => code),
      ['no_node_fits'],
    )
    assert.match(reasons[0]?.message ?? '', /"spread" requires: 3 stages, 2 online/)
  })

  it('warns about stages that have less time than their endpoints take on average, but still finds the plan feasible', () => {
    const input = largeRequest(randomNumbers(5), { nodes: 3, stages: 3, edges: 2 })
    const planWith = (timeoutS: number, isMeasured: boolean) =>
      planGraph({
        ...input,
        graph: {
          ...input.graph,
          stages: input.graph.stages.map((stage, i) => (i === 1 ? { ...stage, timeout_s: timeoutS } : stage)),
        },
        models: new Map(
          [...input.models].map(([id, model]) => [id, { ...model, run_ms: 2_500, is_measured: isMeasured }]),
        ),
      })

    const plan = planWith(2, true)
    assert.equal(plan.feasible, true)
    const [remark, ...others] = plan.reasons
    assert.deepEqual(others, [])
    assert.deepEqual([remark?.code, remark?.stage_id], ['over_deadline', 'stage-1'])
    assert.match(remark?.message ?? '', /timeout_s of 2 s.*take 2\.5 s on average/)
    assert.deepEqual(planWith(3, true).reasons, [])
    assert.deepEqual(planWith(2, false).reasons, [], 'an assumed run time must not cause a warning')
  })
})
