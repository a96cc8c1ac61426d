import type { PlannedEdge, PlannedStage } from '../../schemas/cohorts/plan.ts'
import type { Transport } from '../../schemas/cohorts/vocabulary.ts'
import { getOrThrow, numberAt } from '../at.ts'
import type { StageCosts } from './costs.ts'
import { type GraphEdge, type GraphStage, RUN_INPUT } from './graph.ts'
import type { PlanInput } from './plan-input.ts'
import { MICRO } from './plan-limits.ts'
import type { PlanningResult } from './planner/plan-schedule.ts'
import { costOfWay, type EdgeCost, expectedBytes, rateIn } from './transfers.ts'

const ALTERNATIVES = 3
/** How many nodes are searched for alternatives, soonest ready first. */
const CONSIDERED = 16

/** A stage whose node has no name yet. */
export type PlacedStage = Omit<PlannedStage, 'node_name'>

/** A stage on its planned node. */
export interface Placement {
  costs: StageCosts
  /** The index of the node. */
  node: number
  nodeId: string
  startMs: number
  endMs: number
}

export interface PlanView {
  planned: PlanningResult
  ways: ReadonlyMap<string, Transport[]>
  /** By `stage_id`. */
  placements: ReadonlyMap<string, Placement>
  /** Edges between stages, grouped by consumer and by producer. */
  incoming: ReadonlyMap<string, GraphEdge[]>
  outgoing: ReadonlyMap<string, GraphEdge[]>
}

export const rounded = (ms: number): number => Math.round(ms * 10) / 10

export function presentStage(
  input: PlanInput,
  stage: GraphStage,
  costs: StageCosts | undefined,
  shown: PlanView | undefined,
): PlacedStage {
  const { stage_id } = stage
  const model = input.models.get(stage_id)
  const base = {
    stage_id,
    endpoint_id: model?.endpoint_id ?? null,
    model_name: model?.model_name ?? null,
    memory_mb: model?.memory_mb ?? 0,
    price_credits: (model?.price_micro ?? 0) / MICRO,
    excluded: Object.fromEntries(costs?.excluded ?? []),
  }
  const placement = shown?.placements.get(stage_id)
  if (!shown || !placement) {
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
  const { node, nodeId, startMs, endMs } = placement
  const { queueMs, loadMs, runMs, isLoaded } = placement.costs
  const load = numberAt(loadMs, node)
  return {
    ...base,
    node_id: nodeId,
    model_state: isLoaded[node] ? 'resident' : load === model?.cached_ms ? 'cached' : 'cold',
    queue_ms: rounded(numberAt(queueMs, node)),
    load_ms: rounded(load),
    run_ms: rounded(numberAt(runMs, node)),
    start_ms: rounded(startMs),
    end_ms: rounded(endMs),
    slack_ms: rounded(slackOf(input, shown, stage_id, placement)),
    why: whyThere(input, shown, stage, placement),
    alternatives: alternativesOf(input, shown, stage_id, placement),
  }
}

function whyThere(
  { graph, nodes }: PlanInput,
  { placements, incoming }: PlanView,
  { stage_id, fallbacks }: GraphStage,
  { node, costs: { loadMs, isLoaded } }: Placement,
): string {
  const load = Math.round(numberAt(loadMs, node))
  const state = isLoaded[node] ? 'the model is loaded there' : `the model loads there in about ${load} ms`
  const sameNode = (incoming.get(stage_id) ?? [])
    .filter(({ from }) => placements.get(from.stage_id)?.node === node)
    .map(({ from }) => `"${from.stage_id}"`)
  const verb = sameNode.length > 1 ? 'hand' : 'hands'
  const where = sameNode.length > 0 ? `, and ${inEnglish(sameNode)} ${verb} over on the same node` : ''
  const others = graph.constraints.objective === 'cost' ? fallbacks.length : 0
  const price = others > 0 ? `; none of its ${others + 1} endpoints that can run now is cheaper` : ''
  return `${nodes.length === 1 ? `it is the only node; ${state}` : `${state}${where}`}${price}`
}

const inEnglish = (words: readonly string[]): string =>
  words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`

/** Returns when the inputs of a stage would arrive on a node, in milliseconds. */
function arrivalOn(
  input: PlanInput,
  { ways, placements, incoming }: PlanView,
  stageId: string,
  nodeId: string,
): number {
  const { graph } = input
  const rateOf = rateIn(input.rates)
  let arrival = 0
  for (const edge of incoming.get(stageId) ?? []) {
    const producer = getOrThrow(placements, edge.from.stage_id)
    const bytes = expectedBytes(edge, input.handOvers.get(edge.edge_id)?.kind ?? 'json', graph.sample_sizes)
    const pair = [producer.nodeId, nodeId] as const
    const cost = costOfWay(ways.get(edge.edge_id) ?? [], bytes, pair, rateOf)
    arrival = Math.max(arrival, producer.endMs + (cost?.ms ?? Infinity))
  }
  return arrival
}

function alternativesOf(
  input: PlanInput,
  shown: PlanView,
  stageId: string,
  { node: chosen, endMs, costs: { queueMs, loadMs, runMs } }: Placement,
): PlannedStage['alternatives'] {
  return input.nodes
    .map(({ node_id }, node) => ({
      node_id,
      node,
      readyMs: numberAt(queueMs, node) + numberAt(loadMs, node),
    }))
    .filter(({ node, readyMs }) => node !== chosen && readyMs < Infinity)
    .toSorted((a, b) => a.readyMs - b.readyMs)
    .slice(0, CONSIDERED)
    .map(({ node_id, node, readyMs }) => {
      const begin = Math.max(readyMs, arrivalOn(input, shown, stageId, node_id))
      return { node_id, end: begin + numberAt(runMs, node) }
    })
    .filter(({ end }) => end < Infinity)
    .toSorted((a, b) => a.end - b.end)
    .slice(0, ALTERNATIVES)
    .map(({ node_id, end }) => {
      const later = Math.round(end - endMs)
      const reason =
        later > 0 ? `would end ${later} ms later` : 'would end no earlier, given the rest of the graph'
      return { node_id, end_ms: rounded(end), reason }
    })
}

function slackOf(
  input: PlanInput,
  { planned: { schedule }, ways, placements, outgoing }: PlanView,
  stageId: string,
  { nodeId, endMs }: Placement,
): number {
  const { graph } = input
  const rateOf = rateIn(input.rates)
  let latest = schedule.makespanMs
  for (const edge of outgoing.get(stageId) ?? []) {
    const consumer = getOrThrow(placements, edge.to.stage_id)
    const bytes = expectedBytes(edge, input.handOvers.get(edge.edge_id)?.kind ?? 'json', graph.sample_sizes)
    const pair = [nodeId, consumer.nodeId] as const
    const cost = costOfWay(ways.get(edge.edge_id) ?? [], bytes, pair, rateOf)
    latest = Math.min(latest, consumer.startMs - (cost?.ms ?? 0))
  }
  return Math.max(0, latest - endMs)
}

export function presentEdge(
  { graph, handOvers, rates }: PlanInput,
  edge: GraphEdge,
  ways: readonly Transport[],
  shown: PlanView | undefined,
): PlannedEdge {
  const { kind = 'json', evidence_id = null, score = null } = handOvers.get(edge.edge_id) ?? {}
  const bytes = expectedBytes(edge, kind, graph.sample_sizes)
  const nodeOf = (name: string) => shown?.placements.get(name)?.nodeId
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
