import type { Plan, PlannedEdge, PlannedStage, PlanReason } from '../../schemas/cohort-plan.ts'
import type { Transport } from '../../schemas/cohort-vocabulary.ts'
import type { NodeSnapshot } from '../placement/node-snapshot.ts'
import { costsOf, isAble, type StageCosts, type StageModel } from './costs.ts'
import { type Graph, type GraphEdge, type GraphStage, RUN_INPUT } from './graph.ts'
import type { HandOver } from './hand-overs.ts'
import { noNodeCode, whyNoNode } from './no-node.ts'
import { LATER } from './operations.ts'
import { costMicro, MICRO, overLimits, shortTimeouts } from './plan-limits.ts'
import { type Planned, planSchedule } from './planner/plan-schedule.ts'
import type { PlannerEdge, PlannerProblem } from './planner/problem.ts'
import { impossibleSessions } from './sessions.ts'
import {
  costOfWay,
  type EdgeCost,
  expectedBytes,
  type PairRates,
  rateIn,
  timesOf,
  waysOf,
} from './transfers.ts'

/** The input of a plan. Can be copied to a worker thread. */
export interface PlanInput {
  graph: Graph
  accountId: string
  /** By `stage_id`. A stage without a model has its own reason. */
  models: ReadonlyMap<string, StageModel>
  /**
   * Models called after the last attempt of a stage, by `stage_id`; the most expensive one counts toward the budget.
   */
  fallbacks?: ReadonlyMap<string, readonly Pick<StageModel, 'price_micro'>[]>
  /** By `edge_id`. */
  handOvers: ReadonlyMap<string, HandOver>
  nodes: readonly NodeSnapshot[]
  /** Names of the nodes that stages name and the account may see, connected or not. */
  nodeNames: ReadonlyMap<string, string>
  rates: PairRates
  /** Problems with the graph that are already known. */
  reasons: readonly PlanReason[]
  now: Date
}

/** A plan before it is stored. */
export interface PlannedGraph extends Omit<Plan, 'plan_id' | 'expires_at' | 'stages'> {
  stages: PlacedStage[]
}

/** A stage whose node has no name yet. */
type PlacedStage = Omit<PlannedStage, 'node_name'>

const ALGORITHM = 'heft+moves'
const ALTERNATIVES = 3
/** Number of nodes, by readiness, among which alternatives are searched. */
const CONSIDERED = 16

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
  const costs = input.graph.stages.map((stage) => stageCosts(input, stage, prefersOwn))
  const ways = new Map(graph.edges.map((edge) => [edge.edge_id, waysOfEdge(input, edge)]))
  const reasons = [
    ...input.reasons,
    ...impossibleSessions(graph),
    ...missingWays(input, ways),
    ...missingNodes(input, costs),
  ]
  const index = new Map(graph.stages.map(({ stage_id }, i) => [stage_id, i]))
  const problem = reasons.length === 0 ? problemOf(input, costs as StageCosts[], { ways, index }) : undefined
  const planned = problem && planSchedule(problem)
  if (problem && !planned) reasons.push(nothingTogether(input))
  const shown = planned && { planned, costs: costs as StageCosts[], ways, ...edgesByEnd(graph, index) }
  if (shown) reasons.push(...overLimits(input, shown.planned.schedule.makespanMs))
  return {
    feasible: reasons.length === 0,
    snapshot_at: input.now.toISOString(),
    stages: graph.stages.map((stage, i) => presentStage(input, stage, costs[i], shown, i)),
    edges: graph.edges.map((edge) => presentEdge(input, edge, ways.get(edge.edge_id) ?? [], shown)),
    critical_path: planned?.criticalPath.map((i) => graph.stages[i]!.stage_id) ?? [],
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

interface Shown {
  planned: Planned
  costs: StageCosts[]
  ways: ReadonlyMap<string, Transport[]>
  /** The indexes of the stages in the graph, by `stage_id`. */
  index: ReadonlyMap<string, number>
  /** Edges between stages, grouped by consumer and by producer. */
  incoming: ReadonlyMap<string, GraphEdge[]>
  outgoing: ReadonlyMap<string, GraphEdge[]>
}

function edgesByEnd({ edges }: Graph, index: ReadonlyMap<string, number>) {
  const between = edges.filter(({ from }) => index.has(from.stage_id))
  return {
    index,
    incoming: Map.groupBy(between, ({ to }) => to.stage_id),
    outgoing: Map.groupBy(between, ({ from }) => from.stage_id),
  }
}

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
        ? `edge "${edge_id}" allows "engine" alone, which ${LATER}; also allow others`
        : `no transport that edge "${edge_id}" allows (${transports?.join(', ') ?? 'all but relay'}) can carry what it hands over`,
      edge_id,
    }))

const missingNodes = (
  { graph, models, nodes, nodeNames }: PlanInput,
  costs: readonly (StageCosts | undefined)[],
): PlanReason[] =>
  graph.stages.flatMap(({ stage_id, placement }, i) => {
    const cost = costs[i]
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
  costs: readonly StageCosts[],
  { ways, index }: Pick<Shown, 'ways' | 'index'>,
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
    stages: graph.stages.map(({ stage_id, placement }, i) => {
      const { queueMs, loadMs, runMs, isLoaded } = costs[i]!
      const { model_key, memory_mb } = models.get(stage_id)!
      const tied = placement?.same_node_as ?? onOneNode.get(stage_id)
      return {
        earliestMs: queueMs.map((ms, node) => ms + loadMs[node]!),
        runMs,
        model: keys.indexOf(model_key),
        memoryMb: memory_mb,
        isLoaded,
        ...(tied !== undefined && { sameNodeAs: index.get(tied)! }),
      }
    }),
    edges: edges.map((edge): PlannerEdge => {
      const kind = handOvers.get(edge.edge_id)?.kind ?? 'json'
      const bytes = expectedBytes(edge, kind, graph.sample_sizes)
      const allowed = ways.get(edge.edge_id) ?? []
      const times = timesOf(allowed, bytes, rateOf)
      return {
        from: index.get(edge.from.stage_id)!,
        to: index.get(edge.to.stage_id)!,
        transferMs: (from, to) => times(names[from]!, names[to]!),
      }
    }),
    freeMb: Float64Array.from(nodes, ({ memory_free_mb }) => memory_free_mb),
    spread: graph.constraints.spread ?? false,
  }
}

const rounded = (ms: number): number => Math.round(ms * 10) / 10

function presentStage(
  input: PlanInput,
  { stage_id }: GraphStage,
  costs: StageCosts | undefined,
  shown: Shown | undefined,
  i: number,
): PlacedStage {
  const model = input.models.get(stage_id)
  const base = {
    stage_id,
    endpoint_id: model?.endpoint_id ?? null,
    model_name: model?.model_name ?? null,
    memory_mb: model?.memory_mb ?? 0,
    price_credits: (model?.price_micro ?? 0) / MICRO,
    excluded: Object.fromEntries(costs?.excluded ?? []),
  }
  if (!shown || !costs) {
    const times = {
      queue_ms: 0,
      load_ms: 0,
      run_ms: rounded(model?.run_ms ?? 0),
      start_ms: 0,
      end_ms: 0,
      slack_ms: 0,
    }
    return {
      ...base,
      ...times,
      node_id: null,
      model_state: null,
      why: 'it could not be placed',
      alternatives: [],
    }
  }
  const { schedule } = shown.planned
  const node = schedule.nodes[i]!
  const [queue, load] = [costs.queueMs[node]!, costs.loadMs[node]!]
  return {
    ...base,
    node_id: input.nodes[node]!.node_id,
    model_state: costs.isLoaded[node] ? 'resident' : load === model?.cached_ms ? 'cached' : 'cold',
    queue_ms: rounded(queue),
    load_ms: rounded(load),
    run_ms: rounded(costs.runMs[node]!),
    start_ms: rounded(schedule.startMs[i]!),
    end_ms: rounded(schedule.endMs[i]!),
    slack_ms: rounded(slackOf(input, shown, i)),
    why: whyThere(input, shown, i),
    alternatives: alternativesOf(input, shown, i),
  }
}

function whyThere(
  { graph, nodes }: PlanInput,
  { planned, costs, index, incoming }: Shown,
  i: number,
): string {
  const node = planned.schedule.nodes[i]!
  const { loadMs, isLoaded } = costs[i]!
  const load = Math.round(loadMs[node]!)
  const state = isLoaded[node] ? 'the model is loaded there' : `the model loads there in about ${load} ms`
  const beside = (incoming.get(graph.stages[i]!.stage_id) ?? [])
    .filter(({ from }) => planned.schedule.nodes[index.get(from.stage_id)!] === node)
    .map(({ from }) => `"${from.stage_id}"`)
  const verb = beside.length > 1 ? 'hand' : 'hands'
  const where = beside.length > 0 ? `, and ${inEnglish(beside)} ${verb} over on the same node` : ''
  const { constraints, stages } = graph
  const others = constraints.objective === 'cost' ? (stages[i]?.fallbacks.length ?? 0) : 0
  const price = others > 0 ? `; none of its ${others + 1} endpoints that can run now is cheaper` : ''
  return `${nodes.length === 1 ? `it is the only node; ${state}` : `${state}${where}`}${price}`
}

const inEnglish = (words: readonly string[]): string =>
  words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`

/** Returns when the inputs of a stage would arrive on a node, in milliseconds. */
function arrivalOn(
  input: PlanInput,
  { planned, ways, index, incoming }: Shown,
  i: number,
  node: number,
): number {
  const { graph, nodes } = input
  const rateOf = rateIn(input.rates)
  const { schedule } = planned
  let arrival = 0
  for (const edge of incoming.get(graph.stages[i]!.stage_id) ?? []) {
    const producer = index.get(edge.from.stage_id)!
    const bytes = expectedBytes(edge, input.handOvers.get(edge.edge_id)?.kind ?? 'json', graph.sample_sizes)
    const pair = [nodes[schedule.nodes[producer]!]!.node_id, nodes[node]!.node_id] as const
    const cost = costOfWay(ways.get(edge.edge_id) ?? [], bytes, pair, rateOf)
    arrival = Math.max(arrival, schedule.endMs[producer]! + (cost?.ms ?? Infinity))
  }
  return arrival
}

function alternativesOf(input: PlanInput, shown: Shown, i: number): PlannedStage['alternatives'] {
  const { queueMs, loadMs, runMs } = shown.costs[i]!
  const { nodes: chosen, endMs } = shown.planned.schedule
  const readyMs = (node: number) => queueMs[node]! + loadMs[node]!
  return input.nodes
    .map(({ node_id }, node) => ({ node_id, node }))
    .filter(({ node }) => node !== chosen[i] && queueMs[node]! < Infinity)
    .toSorted((a, b) => readyMs(a.node) - readyMs(b.node))
    .slice(0, CONSIDERED)
    .map(({ node_id, node }) => {
      const begin = Math.max(readyMs(node), arrivalOn(input, shown, i, node))
      return { node_id, end: begin + runMs[node]! }
    })
    .filter(({ end }) => end < Infinity)
    .toSorted((a, b) => a.end - b.end)
    .slice(0, ALTERNATIVES)
    .map(({ node_id, end }) => {
      const later = Math.round(end - endMs[i]!)
      const reason =
        later > 0 ? `would end ${later} ms later` : 'would end no earlier with the rest of the graph'
      return { node_id, end_ms: rounded(end), reason }
    })
}

function slackOf(
  input: PlanInput,
  { planned: { schedule }, ways, index, outgoing }: Shown,
  i: number,
): number {
  const { graph, nodes } = input
  const rateOf = rateIn(input.rates)
  let latest = schedule.makespanMs
  for (const edge of outgoing.get(graph.stages[i]!.stage_id) ?? []) {
    const consumer = index.get(edge.to.stage_id)!
    const bytes = expectedBytes(edge, input.handOvers.get(edge.edge_id)?.kind ?? 'json', graph.sample_sizes)
    const pair = [nodes[schedule.nodes[i]!]!.node_id, nodes[schedule.nodes[consumer]!]!.node_id] as const
    const cost = costOfWay(ways.get(edge.edge_id) ?? [], bytes, pair, rateOf)
    latest = Math.min(latest, schedule.startMs[consumer]! - (cost?.ms ?? 0))
  }
  return Math.max(0, latest - schedule.endMs[i]!)
}

function presentEdge(
  { graph, nodes, handOvers, rates }: PlanInput,
  edge: GraphEdge,
  ways: readonly Transport[],
  shown: Shown | undefined,
): PlannedEdge {
  const { kind = 'json', evidence_id = null, score = null } = handOvers.get(edge.edge_id) ?? {}
  const bytes = expectedBytes(edge, kind, graph.sample_sizes)
  const nodeOf = (name: string) => {
    const i = shown?.index.get(name)
    return shown && i !== undefined ? nodes[shown.planned.schedule.nodes[i]!]?.node_id : undefined
  }
  const [from, to] = [nodeOf(edge.from.stage_id), nodeOf(edge.to.stage_id)]
  const isInput = edge.from.stage_id === RUN_INPUT
  const cost: EdgeCost | undefined =
    from !== undefined && to !== undefined ? costOfWay(ways, bytes, [from, to], rateIn(rates)) : undefined
  return {
    edge_id: edge.edge_id,
    from: edge.from,
    to: { stage_id: edge.to.stage_id, path: edge.to.path },
    kind,
    transport: isInput ? 'inline' : (cost?.transport ?? null),
    mode: cost?.transport === 'direct' ? edge.mode : 'transfer',
    estimated_bytes: bytes,
    estimated_ms: rounded(cost?.ms ?? 0),
    rate_mb_s: cost?.rateMbS ?? null,
    rate_source: cost?.rateSource ?? 'default',
    evidence_id,
    score,
  }
}
