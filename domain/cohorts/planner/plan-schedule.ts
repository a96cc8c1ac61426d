import { at, numberAt, getOrThrow } from '../../at.ts'
import type { PlannerEdge, PlannerProblem, PlannerStage, Schedule } from './problem.ts'
import { incomingOf, Timeline } from './timeline.ts'

/** Nodes tried for a stage, in addition to its producers' nodes. */
const CANDIDATES = 64
/** Nodes tried for a stage when the schedule is improved. */
const ALTERNATIVES = 12
/** Nodes tried for the whole graph. */
const WHOLE_GRAPH = 8
/** Nodes tried when two stages swap nodes. */
const EXCHANGES = 5
const MAX_MOVES = 12

export interface PlanningResult {
  schedule: Schedule
  /** Each stage that decides the makespan, in execution order. */
  criticalPath: number[]
  /** The longest path, with the best node for each stage and no hand-overs. No schedule is shorter than this. */
  lowerBoundMs: number
  candidates: number
  moves: number
}

/**
 * Plans a graph for the smallest makespan. Starts with HEFT with insertion (Topcuoglu, Hariri and Wu 2002) over each
 * stage's best nodes. Then tries the whole graph on one node, then moves stages on the critical path. Returns undefined
 * when a stage fits on no node.
 */
export function planSchedule(problem: PlannerProblem): PlanningResult | undefined {
  const { stages } = problem
  const incoming = incomingOf(problem)
  const best = stages.map((stage) => bestNodes(stage))
  const order = rankOrder(problem, incoming, best)
  const timeline = new Timeline(problem, incoming)
  const search = { problem, incoming, order, best, timeline }
  let schedule = heft(search)
  for (const node of wholeGraphNodes(problem, best)) {
    timeline.clear()
    const alone = evaluate(search, new Int32Array(stages.length).fill(node), schedule?.makespanMs)
    if (alone) schedule = alone
  }
  if (!schedule) return undefined
  let moves = 0
  while (moves < MAX_MOVES) {
    const better = improve(search, schedule)
    if (!better) break
    schedule = better
    moves += 1
  }
  return {
    schedule,
    criticalPath: criticalPath(search, schedule),
    lowerBoundMs: lowerBound(stages, incoming),
    candidates: best.reduce((sum, nodes) => sum + nodes.length, 0),
    moves,
  }
}

interface Search {
  readonly problem: PlannerProblem
  readonly incoming: readonly (readonly PlannerEdge[])[]
  /** The stages by descending upward rank. */
  readonly order: readonly number[]
  readonly best: readonly (readonly number[])[]
  readonly timeline: Timeline
}

/** Returns the nodes on which a stage, taken alone, would end first. */
function bestNodes({ earliestMs, runMs }: PlannerStage): number[] {
  const able: { node: number; endMs: number }[] = []
  for (let node = 0; node < earliestMs.length; node++) {
    const earliest = numberAt(earliestMs, node)
    if (earliest !== Infinity) able.push({ node, endMs: earliest + numberAt(runMs, node) })
  }
  if (able.length > CANDIDATES) able.sort((a, b) => a.endMs - b.endMs || a.node - b.node)
  return able.slice(0, CANDIDATES).map(({ node }) => node)
}

/** Orders the stages by their longest path to the end, with costs averaged over their nodes. */
function rankOrder(
  { stages, edges }: PlannerProblem,
  incoming: readonly (readonly PlannerEdge[])[],
  best: readonly (readonly number[])[],
): number[] {
  const rank = new Float64Array(stages.length)
  const cost = stages.map(({ runMs }, stage) => {
    const nodes = at(best, stage)
    return nodes.reduce((sum, node) => sum + numberAt(runMs, node), 0) / Math.max(1, nodes.length)
  })
  const transfers = new Map(edges.map((edge) => [edge, meanTransfer(edge, best)]))
  for (let stage = stages.length - 1; stage >= 0; stage--) {
    const own = numberAt(rank, stage) + at(cost, stage)
    rank[stage] = own
    for (const edge of at(incoming, stage)) {
      const through = own + getOrThrow(transfers, edge)
      if (through > numberAt(rank, edge.from)) rank[edge.from] = through
    }
  }
  // Indexes are in topological order, which breaks ties.
  return stages.map((_, stage) => stage).toSorted((a, b) => numberAt(rank, b) - numberAt(rank, a) || a - b)
}

const SAMPLES = 4

function meanTransfer({ from, to, transferMs }: PlannerEdge, best: readonly (readonly number[])[]): number {
  const [producers, consumers] = [at(best, from).slice(0, SAMPLES), at(best, to).slice(0, SAMPLES)]
  let sum = 0
  for (const producer of producers) for (const consumer of consumers) sum += transferMs(producer, consumer)
  return sum / Math.max(1, producers.length * consumers.length)
}

function heft({ incoming, order, best, timeline }: Search): Schedule | undefined {
  timeline.clear()
  for (const stage of order) {
    let [chosen, end] = [-1, Infinity]
    const consider = (node: number) => {
      const ends = timeline.endOn(stage, node)
      if (ends < end) [chosen, end] = [node, ends]
    }
    const tied = timeline.nodeOfTied(stage)
    if (tied !== undefined) consider(tied)
    for (const { from } of at(incoming, stage)) consider(timeline.nodeOf(from))
    for (const node of at(best, stage)) consider(node)
    if (chosen < 0) return undefined
    timeline.place(stage, chosen, end)
  }
  return timeline.schedule()
}

/**
 * Returns the schedule for an assignment; undefined if it is impossible or not shorter than `belowMs`. Stages already
 * in the timeline stay where they are.
 */
function evaluate({ order, timeline }: Search, nodes: Int32Array, belowMs = Infinity): Schedule | undefined {
  for (let i = timeline.placed; i < order.length; i++) {
    const stage = at(order, i)
    const node = numberAt(nodes, stage)
    const end = timeline.endOn(stage, node)
    if (end >= belowMs) return undefined
    timeline.place(stage, node, end)
  }
  return timeline.schedule()
}

/** Returns the nodes that could run every stage, those with the least total work first. */
function wholeGraphNodes({ stages }: PlannerProblem, best: readonly (readonly number[])[]): number[] {
  const [first = []] = best
  const workOn = (node: number) =>
    stages.reduce(
      (sum, { runMs, earliestMs }) =>
        sum + numberAt(runMs, node) + (earliestMs[node] === Infinity ? Infinity : 0),
      0,
    )
  return first
    .map((node) => ({ node, work: workOn(node) }))
    .filter(({ work }) => work < Infinity)
    .toSorted((a, b) => a.work - b.work)
    .slice(0, WHOLE_GRAPH)
    .map(({ node }) => node)
}

type Move = readonly [stage: number, node: number]

/**
 * Returns the best schedule after one move. A move puts a stage on the critical path elsewhere, moves both ends of one
 * of its edges together, or swaps it with another stage.
 */
function improve(search: Search, schedule: Schedule): Schedule | undefined {
  const path = criticalPath(search, schedule)
  const nodes = schedule.nodes.slice()
  let found: Schedule | undefined
  const position = new Int32Array(nodes.length)
  for (const [i, stage] of search.order.entries()) position[stage] = i
  const { order, timeline } = search
  timeline.clear()
  let kept = 0
  /** Keeps the stages before the moved ones, because nothing changes for them. */
  const keep = (count: number) => {
    timeline.clear(Math.min(kept, count))
    for (const stage of order.slice(timeline.placed, count))
      timeline.place(stage, numberAt(schedule.nodes, stage), numberAt(schedule.endMs, stage))
    kept = count
  }
  const attempt = (...moves: Move[]) => {
    keep(Math.min(...moves.map(([stage]) => numberAt(position, stage))))
    for (const [stage, node] of moves) nodes[stage] = node
    found = evaluate(search, nodes, found?.makespanMs ?? schedule.makespanMs) ?? found
    for (const [stage] of moves) nodes[stage] = numberAt(schedule.nodes, stage)
  }
  for (const [i, stage] of path.entries()) {
    const tried = new Set([
      ...at(search.best, stage).slice(0, ALTERNATIVES),
      ...neighbours(search, schedule, stage),
    ])
    for (const node of tried) if (node !== schedule.nodes[stage]) attempt([stage, node])
    for (const [other, node] of exchanges(search, schedule, stage))
      attempt([stage, numberAt(schedule.nodes, other)], [other, node])
    const next = path[i + 1]
    if (next === undefined) continue
    for (const node of new Set([...tried, ...at(search.best, next).slice(0, ALTERNATIVES)]))
      attempt([stage, node], [next, node])
  }
  return found
}

/** Returns the nodes of a stage's producers and consumers. */
const neighbours = ({ problem }: Search, { nodes }: Schedule, stage: number): number[] =>
  problem.edges.flatMap(({ from, to }) =>
    from === stage ? [numberAt(nodes, to)] : to === stage ? [numberAt(nodes, from)] : [],
  )

/**
 * Yields moves that free a stage's best nodes: each stage there moves to this stage's node, or to a node that suits it.
 */
function* exchanges({ best }: Search, { nodes }: Schedule, stage: number): Generator<Move> {
  const currentNode = numberAt(nodes, stage)
  for (const wanted of at(best, stage).slice(0, EXCHANGES)) {
    if (wanted === currentNode) continue
    for (let other = 0; other < nodes.length; other++) {
      if (nodes[other] !== wanted) continue
      const elsewhere = new Set([currentNode, ...at(best, other).slice(0, EXCHANGES)])
      for (const node of elsewhere) if (node !== wanted) yield [other, node]
    }
  }
}

/**
 * Returns the stages whose times decide the makespan: the last stage, the one that it waited for, and so on back to the
 * start.
 */
function criticalPath(
  { problem: { stages }, incoming }: Pick<Search, 'problem' | 'incoming'>,
  { nodes, startMs, endMs }: Schedule,
): number[] {
  let stage = endMs.indexOf(Math.max(...endMs))
  const path = [stage]
  for (;;) {
    const node = numberAt(nodes, stage)
    let [before, latest] = [-1, numberAt(at(stages, stage).earliestMs, node)]
    for (const { from, transferMs } of at(incoming, stage)) {
      const arrival = numberAt(endMs, from) + transferMs(numberAt(nodes, from), node)
      if (arrival >= latest) [before, latest] = [from, arrival]
    }
    // A stage that began after its inputs had arrived was waiting for another stage on its node.
    if (numberAt(startMs, stage) > latest) {
      for (let other = 0; other < stages.length; other++)
        if (nodes[other] === node && endMs[other] === startMs[stage]) before = other
    }
    if (before < 0 || path.includes(before)) return path.toReversed()
    path.push(before)
    stage = before
  }
}

function lowerBound(stages: readonly PlannerStage[], incoming: readonly (readonly PlannerEdge[])[]): number {
  const end = new Float64Array(stages.length)
  let longest = 0
  for (const [stage, { earliestMs, runMs }] of stages.entries()) {
    const arrival = at(incoming, stage).reduce((latest, { from }) => Math.max(latest, numberAt(end, from)), 0)
    let first = Infinity
    for (let node = 0; node < runMs.length; node++)
      first = Math.min(first, Math.max(arrival, numberAt(earliestMs, node)) + numberAt(runMs, node))
    end[stage] = first
    longest = Math.max(longest, first)
  }
  return longest
}
