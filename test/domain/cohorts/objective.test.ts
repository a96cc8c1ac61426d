import assert from 'node:assert/strict'
import type { StageModel } from '../../../domain/cohorts/costs.ts'
import { graphOf } from '../../../domain/cohorts/graph.ts'
import { cheapestFirst } from '../../../domain/cohorts/objective.ts'
import { planGraph } from '../../../domain/cohorts/plan-graph.ts'
import type { NodeSnapshot } from '../../../domain/placement/node-snapshot.ts'
import type { PlanRequest } from '../../../schemas/cohorts/plan.ts'

const ME = 'me'
const model = (endpoint_id: string, price_micro: number): StageModel & { ref: string } => ({
  ref: endpoint_id,
  endpoint_id,
  model_name: endpoint_id,
  model_key: 'model',
  runtime_profile: 'profile',
  task_type: 'chat',
  memory_mb: 1_000,
  price_micro,
  run_ms: 1_000,
  is_measured: false,
  cached_ms: 2_000,
  cold_ms: 20_000,
})
const node = (node_id: string, account_id: string, isWarm: boolean): NodeSnapshot => ({
  node_id,
  account_id,
  sharing: 'shared',
  hardware: 'cpu',
  profiles: ['profile'],
  cpus: 8,
  memory_total_mb: 8_000,
  memory_free_mb: 8_000,
  load: 0,
  draining: false,
  models: isWarm ? [{ model_key: 'model', state: 'idle', in_flight: 0, memory_mb: 1_000 }] : [],
})

describe('the objective "cost"', () => {
  const ordered = (prices: Record<string, number>, fits: (ref: string) => boolean = () => true) => {
    const [endpoint_id = '', ...fallbacks] = Object.keys(prices)
    const graph = graphOf({ stages: [{ stage_id: 'a', endpoint_id, fallbacks }], edges: [] })
    const [own, ...others] = Object.entries(prices)
      .filter(([, price]) => price >= 0)
      .map(([ref, price]) => model(ref, price))
    const facts = { models: new Map([['a', own!]]), fallbacks: new Map([['a', others]]) }
    const [stage] = cheapestFirst(graph, facts, (_, { endpoint_id: ref }) => fits(ref)).stages
    return [stage?.endpoint_id, ...(stage?.fallbacks ?? [])]
  }

  it('starts with the cheapest endpoint and falls back to more expensive ones', () => {
    assert.deepEqual(ordered({ dear: 900, cheap: 100, middle: 500 }), ['cheap', 'middle', 'dear'])
  })

  it("keeps the order of equally priced endpoints; endpoints that can't be called or run come last", () => {
    assert.deepEqual(ordered({ first: 5, second: 5, third: 4 }), ['third', 'first', 'second'])
    assert.deepEqual(ordered({ first: 5, paused: -1, second: 5 }), ['first', 'second', 'paused'])
    assert.deepEqual(
      ordered({ dear: 9, homeless: 1 }, (ref) => ref !== 'homeless'),
      ['dear', 'homeless'],
    )
  })

  it("names a stage by its endpoint when it starts with an endpoint other than its own model's", () => {
    const stageRequest = { stage_id: 'a', model_config_id: 'version', fallbacks: ['cheap'] }
    const facts = {
      models: new Map([['a', model('own', 9)]]),
      fallbacks: new Map([['a', [model('cheap', 1)]]]),
    }
    const [stage] = cheapestFirst(graphOf({ stages: [stageRequest], edges: [] }), facts, () => true).stages
    assert.deepEqual(
      [stage?.endpoint_id, stage?.fallbacks, stage?.model_config_id],
      ['cheap', ['own'], undefined],
    )
  })

  const planned = (constraints: NonNullable<PlanRequest['constraints']>, nodes: readonly NodeSnapshot[]) => {
    const graph = graphOf({ stages: [{ stage_id: 'a', endpoint_id: 'a' }], edges: [], constraints })
    const plan = planGraph({
      graph,
      accountId: ME,
      models: new Map([['a', model('a', 100)]]),
      handOvers: new Map(),
      nodes,
      nodeNames: new Map(),
      rates: new Map(),
      reasons: [],
      now: new Date(),
    })
    assert.equal(plan.feasible, true, JSON.stringify(plan.reasons))
    return plan.stages[0]?.node_id
  }

  it("prefers the account's own nodes, which earn it credits, even if other nodes would finish sooner", () => {
    const nodes = [node('theirs', 'they', true), node('mine', ME, false)]
    assert.equal(planned({ objective: 'cost' }, nodes), 'mine')
    assert.equal(planned({ objective: 'latency' }, nodes), 'theirs')
    assert.equal(planned({}, nodes), 'theirs')
  })

  it("uses other accounts' nodes when none of the account's own can run the stage, or none can meet the deadline", () => {
    const [theirs, mine] = [node('theirs', 'they', true), node('mine', ME, false)]
    assert.equal(planned({ objective: 'cost' }, [theirs, { ...mine, draining: true }]), 'theirs')
    assert.equal(planned({ objective: 'cost', deadline_s: 10 }, [theirs, mine]), 'theirs')
    assert.equal(planned({ objective: 'cost', deadline_s: 30 }, [theirs, mine]), 'mine')
  })

  it("picks the account's node that finishes first", () => {
    const nodes = [node('cold', ME, false), node('warm', ME, true), node('theirs', 'they', true)]
    assert.equal(planned({ objective: 'cost' }, nodes), 'warm')
  })
})
