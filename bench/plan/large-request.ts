import type { StageModel } from '../../domain/cohorts/costs.ts'
import { graphOf } from '../../domain/cohorts/graph.ts'
import { type Handoff, valueHandoff } from '../../domain/cohorts/handoffs.ts'
import type { PlanInput } from '../../domain/cohorts/plan-input.ts'
import type { NodeSnapshot } from '../../domain/placement/node-snapshot.ts'

const ACCOUNT = 'an account'
const MODELS = 32
const MEMORY_MB = 64_000

interface RequestShape {
  nodes: number
  stages: number
  edges: number
}

/**
 * Builds a chain in which each stage also consumes some earlier stages, so that nearly every stage affects the
 * makespan: the worst case for the planner. Each node in the pool has some of the models loaded.
 */
export function largeRequest(
  chance: () => number,
  { nodes: nodeCount, stages: count, edges: edgeCount }: RequestShape,
): PlanInput {
  const pick = (most: number) => Math.floor(chance() * most)
  const nodes = Array.from({ length: nodeCount }, (_, i): NodeSnapshot => ({
    node_id: `node-${i}`,
    account_id: ACCOUNT,
    sharing: 'shared',
    hardware: 'cpu',
    profiles: ['profile'],
    cpus: 8,
    memory_total_mb: MEMORY_MB,
    memory_free_mb: MEMORY_MB,
    load: chance(),
    draining: false,
    models: [...new Set([pick(MODELS), pick(MODELS), pick(MODELS)])].map((model) => ({
      model_key: `model-${model}`,
      state: 'idle',
      in_flight: pick(3),
      memory_mb: 1_000,
    })),
  }))
  const stages = Array.from({ length: count }, (_, i) => ({
    stage_id: `stage-${i}`,
    endpoint_id: `endpoint-${i}`,
  }))
  const edges = Array.from({ length: edgeCount }, (_, i) => {
    const to = 1 + (i % (count - 1))
    return {
      from: { stage_id: `stage-${Math.max(0, to - 1 - Math.floor(i / (count - 1)))}` },
      to: { stage_id: `stage-${to}`, path: `/from_${i}` },
    }
  })
  const graph = graphOf({ stages, edges })
  const models = new Map(
    graph.stages.map(({ stage_id, endpoint_id = '' }): [string, StageModel] => [
      stage_id,
      {
        endpoint_id,
        model_name: endpoint_id,
        model_key: `model-${pick(MODELS)}`,
        runtime_profile: 'profile',
        task_type: 'text-generation',
        memory_mb: 1_000,
        price_micro: 0,
        run_ms: 50 + pick(2_000),
        is_measured: false,
        cached_ms: 2_000,
        cold_ms: 20_000,
      },
    ]),
  )
  // Every second hand-over carries a cache, whose transport depends on both nodes.
  const handOvers = new Map(
    graph.edges.map((edge, i): [string, Handoff] => {
      const handOver = valueHandoff(edge)
      return [edge.edge_id, i % 2 === 0 ? { ...handOver, kind: 'kv_cache' } : handOver]
    }),
  )
  return {
    graph,
    accountId: ACCOUNT,
    models,
    handOvers,
    nodes,
    nodeNames: new Map(),
    rates: new Map(),
    reasons: [],
    now: new Date(0),
  }
}
