import type { Plan, PlanReason } from '../../schemas/cohorts/plan.ts'
import type { Transport } from '../../schemas/cohorts/vocabulary.ts'
import { at, getOrThrow, numberAt } from '../at.ts'
import { costsOf, isAble, type StageCosts } from './costs.ts'
import { type Graph, type GraphEdge, type GraphStage, RUN_INPUT } from './graph.ts'
import { noNodeCode, whyNoNode } from './no-node.ts'
import type { PlanInput } from './plan-input.ts'
import { costMicro, MICRO, overLimits, shortTimeouts } from './plan-limits.ts'
import { type PlanningResult, planSchedule } from './planner/plan-schedule.ts'
import type { PlannerEdge, PlannerProblem } from './planner/problem.ts'
import {
  type PlacedStage,
  type Placement,
  presentEdge,
  presentStage,
  rounded,
  type PlanView,
} from './present-plan.ts'
import { LATER, STREAMED_OPERATIONS } from './stage-operations.ts'
import { expectedBytes, rateIn, timesOf, waysOf } from './transfers.ts'

/** A plan before it is stored. */
export interface PlannedGraph extends Omit<Plan, 'plan_id' | 'expires_at' | 'stages'> {
  stages: PlacedStage[]
}

const ALGORITHM = 'heft+moves'

/**
 * Places a graph on nodes and explains the placement, or why there is none. For the objective `cost`, each stage
 * prefers the account's own nodes, unless the deadline or the graph as a whole requires others.
 */
export function planGraph(input: PlanInput): PlannedGraph {
  const prefersOwn = input.graph.constraints.objective === 'cost'
  const first = placeGraph(input, prefersOwn)
  if (first.feasible || !prefersOwn) return first
  const other = placeGraph(input, false)
  return other.feasible ? other : first
}

function placeGraph(input: PlanInput, prefersOwn: boolean): PlannedGraph {
  const startedAt = performance.now()
  const { graph } = input
  const costs = new Map(
    graph.stages.flatMap((stage) => {
      const cost = stageCosts(input, stage, prefersOwn)
      return cost ? [[stage.stage_id, cost] as const] : []
    }),
  )
  const ways = new Map(graph.edges.map((edge) => [edge.edge_id, waysOfEdge(input, edge)]))
  const reasons = [
    ...input.reasons,
    ...impossibleSessions(graph),
    ...missingWays(input, ways),
    ...missingNodes(input, costs),
  ]
  const index = new Map(graph.stages.map(({ stage_id }, i) => [stage_id, i]))
  const problem = reasons.length === 0 ? problemOf(input, costs, { ways, index }) : undefined
  const planned = problem && planSchedule(problem)
  if (problem && !planned) reasons.push(nothingTogether(input))
  const shown = planned && {
    planned,
    ways,
    placements: placementsOf(input, planned, costs),
    ...edgesByEnd(graph, index),
  }
  if (planned) reasons.push(...overLimits(input, planned.schedule.makespanMs))
  return {
    feasible: reasons.length === 0,
    snapshot_at: input.now.toISOString(),
    stages: graph.stages.map((stage) => presentStage(input, stage, costs.get(stage.stage_id), shown)),
    edges: graph.edges.map((edge) => presentEdge(input, edge, ways.get(edge.edge_id) ?? [], shown)),
    critical_path: planned?.criticalPath.map((i) => at(graph.stages, i).stage_id) ?? [],
    estimated_latency_ms: rounded(planned?.schedule.makespanMs ?? 0),
    lower_bound_ms: rounded(planned?.lowerBoundMs ?? 0),
    estimated_cost_credits: costMicro(input) / MICRO,
    reasons: [...reasons, ...shortTimeouts(input)],
    planner: {
      algorithm: ALGORITHM,
      candidates: planned?.candidates ?? 0,
      moves: planned?.moves ?? 0,
      ms: rounded(performance.now() - startedAt),
    },
  }
}

function edgesByEnd({ edges }: Graph, index: ReadonlyMap<string, number>) {
  const between = edges.filter(({ from }) => index.has(from.stage_id))
  return {
    incoming: Map.groupBy(between, ({ to }) => to.stage_id),
    outgoing: Map.groupBy(between, ({ from }) => from.stage_id),
  }
}

const placementsOf = (
  { graph, nodes }: PlanInput,
  { schedule }: PlanningResult,
  costs: ReadonlyMap<string, StageCosts>,
): ReadonlyMap<string, Placement> =>
  new Map(
    graph.stages.map(({ stage_id }, i) => {
      const node = numberAt(schedule.nodes, i)
      const [startMs, endMs] = [numberAt(schedule.startMs, i), numberAt(schedule.endMs, i)]
      const { node_id: nodeId } = at(nodes, node)
      return [stage_id, { costs: getOrThrow(costs, stage_id), node, nodeId, startMs, endMs }]
    }),
  )

function stageCosts(
  { graph, models, nodes, accountId, now }: PlanInput,
  stage: GraphStage,
  prefersOwn: boolean,
) {
  const model = models.get(stage.stage_id)
  const { hardware, node_accounts: nodeAccounts } = graph.constraints
  return (
    model &&
    costsOf(stage, model, nodes, {
      accountId,
      ...(hardware && { hardware }),
      ...(nodeAccounts && { nodeAccounts }),
      prefersOwn,
      now: now.getTime(),
    })
  )
}

function waysOfEdge({ graph, handOvers }: PlanInput, edge: GraphEdge): Transport[] {
  const kind = handOvers.get(edge.edge_id)?.kind ?? 'json'
  const bytes = expectedBytes(edge, kind, graph.sample_sizes)
  return waysOf(edge, { kind, bytes, allowRelay: graph.constraints.allow_relay ?? true })
}

const missingWays = ({ graph }: PlanInput, ways: ReadonlyMap<string, Transport[]>): PlanReason[] =>
  graph.edges
    .filter(({ edge_id, from }) => from.stage_id !== RUN_INPUT && ways.get(edge_id)?.length === 0)
    .map(({ edge_id, transports }) => ({
      code: 'transport_not_allowed' as const,
      message: transports?.every((way) => way === 'engine')
        ? `edge "${edge_id}" allows only "engine", which ${LATER}; also allow others`
        : `no transport that edge "${edge_id}" allows (${transports?.join(', ') ?? 'all but relay'}) can carry what it hands over`,
      edge_id,
    }))

const missingNodes = (
  { graph, models, nodes, nodeNames }: PlanInput,
  costs: ReadonlyMap<string, StageCosts>,
): PlanReason[] =>
  graph.stages.flatMap(({ stage_id, placement }) => {
    const cost = costs.get(stage_id)
    if (!cost || isAble(cost)) return []
    const { excluded } = cost
    const why = whyNoNode(placement?.node_ids, { names: nodeNames, nodes, excluded })
    const message = `no node can run stage "${stage_id}" (${models.get(stage_id)?.model_name}): ${why}`
    return [{ code: noNodeCode(excluded), message, stage_id }]
  })

const nothingTogether = ({ graph: { constraints, stages }, nodes }: PlanInput): PlanReason =>
  constraints.spread
    ? {
        code: 'no_node_fits',
        message: `there are too few nodes to put each stage on its own node, as "spread" requires: ${stages.length} stages, ${nodes.length} online`,
      }
    : { code: 'memory', message: 'each stage fits on a node, but not all of them together' }

function problemOf(
  { graph, models, nodes, handOvers, rates }: PlanInput,
  costs: ReadonlyMap<string, StageCosts>,
  { ways, index }: Pick<PlanView, 'ways'> & { index: ReadonlyMap<string, number> },
): PlannerProblem {
  const rateOf = rateIn(rates)
  const keys = [...new Set([...models.values()].map(({ model_key }) => model_key))]
  const names = nodes.map(({ node_id }) => node_id)
  const edges = graph.edges.filter(({ from }) => from.stage_id !== RUN_INPUT)
  const onOneNode = new Map(
    edges
      .filter(({ edge_id }) => ways.get(edge_id)?.every((way) => way === 'local'))
      .map(({ from, to }) => [to.stage_id, from.stage_id]),
  )
  return {
    stages: graph.stages.map(({ stage_id, placement }) => {
      const { queueMs, loadMs, runMs, isLoaded } = getOrThrow(costs, stage_id)
      const { model_key, memory_mb } = getOrThrow(models, stage_id)
      const tied = placement?.same_node_as ?? onOneNode.get(stage_id)
      return {
        earliestMs: queueMs.map((ms, node) => ms + numberAt(loadMs, node)),
        runMs,
        model: keys.indexOf(model_key),
        memoryMb: memory_mb,
        isLoaded,
        ...(tied !== undefined && { sameNodeAs: getOrThrow(index, tied) }),
      }
    }),
    edges: edges.map((edge): PlannerEdge => {
      const kind = handOvers.get(edge.edge_id)?.kind ?? 'json'
      const bytes = expectedBytes(edge, kind, graph.sample_sizes)
      const allowed = ways.get(edge.edge_id) ?? []
      const times = timesOf(allowed, bytes, rateOf)
      return {
        from: getOrThrow(index, edge.from.stage_id),
        to: getOrThrow(index, edge.to.stage_id),
        transferMs: (from, to) => times(at(names, from), at(names, to)),
      }
    }),
    freeMb: Float64Array.from(nodes, ({ memory_free_mb }) => memory_free_mb),
    spread: graph.constraints.spread ?? false,
  }
}

/** Returns reasons to reject sessions whose producers produce their output all at once, or hand over a value. */
const impossibleSessions = ({ stages, edges }: Pick<Graph, 'stages' | 'edges'>): PlanReason[] =>
  edges
    .filter(({ mode }) => mode === 'session')
    .flatMap(({ edge_id, from, space }) => {
      const operation = stages.find(({ stage_id }) => stage_id === from.stage_id)?.operation
      if (space && operation !== undefined && STREAMED_OPERATIONS.includes(operation)) return []
      const what =
        space && operation !== undefined
          ? `the operation "${operation}" hands over`
          : 'a value is handed over'
      const able = STREAMED_OPERATIONS.map((one) => `"${one}"`).join(', ')
      return {
        code: 'operation_not_supported' as const,
        message: `edge "${edge_id}": ${what} as a whole, so it cannot use a session; a session begins at a stage with the operation ${able} and names a "space"`,
        edge_id,
      }
    })
