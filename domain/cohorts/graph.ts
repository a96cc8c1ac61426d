import type { Edge, PlanReason, PlanRequest, Stage, StageOperation } from '../../schemas/cohorts/plan.ts'
import { COHORT_LIMITS } from '../../schemas/cohorts/plan.ts'
import type { EdgeMode, Transport } from '../../schemas/cohorts/vocabulary.ts'
import { asker } from '../nearest-name.ts'
import { overlap, PointerError, withValueAt } from './pointer.ts'

/** The reserved `stage_id` for the run's input. */
export const RUN_INPUT = 'input'

export interface GraphStage extends Stage {
  operation: StageOperation
  input: Record<string, unknown>
  required: boolean
  fallbacks: string[]
  max_attempts: number
  timeout_s: number
}

export interface GraphEdge extends Omit<Edge, 'from' | 'to'> {
  edge_id: string
  from: { stage_id: string; path: string }
  to: { stage_id: string; path: string; template?: string }
  mode: EdgeMode
  transports?: Transport[]
  max_bytes: number
}

export interface GraphOutput {
  name: string
  stage_id: string
  path: string
}

/** A request with its defaults filled in. Its stages are in topological order, if one exists. */
export interface Graph {
  name: string | null
  stages: GraphStage[]
  edges: GraphEdge[]
  outputs: GraphOutput[]
  constraints: NonNullable<PlanRequest['constraints']> & { deadline_s: number; min_score: number }
  sample_sizes: Record<string, number>
}

const DEFAULTS = { maxAttempts: 3, timeoutS: 3_600, deadlineS: 3_600, minScore: 0.9 } as const

/** Returns the name of an edge: its own, or one derived from its two ends and its index. */
export const edgeName = ({ edge_id, from, to }: Edge, i: number): string =>
  edge_id ?? `${from.stage_id}-${to.stage_id}-${i + 1}`

/** Fills in a request's defaults and orders its stages. */
export function graphOf(request: PlanRequest): Graph {
  const stages = request.stages.map((stage): GraphStage => ({
    ...stage,
    operation: stage.operation ?? 'infer',
    input: stage.input ?? {},
    required: stage.required ?? true,
    fallbacks: stage.fallbacks ?? [],
    max_attempts: stage.max_attempts ?? DEFAULTS.maxAttempts,
    timeout_s: stage.timeout_s ?? DEFAULTS.timeoutS,
  }))
  const edges = request.edges.map((edge, i): GraphEdge => ({
    ...edge,
    edge_id: edgeName(edge, i),
    from: { stage_id: edge.from.stage_id, path: edge.from.path ?? '' },
    mode: edge.mode ?? 'transfer',
    max_bytes: edge.max_bytes ?? COHORT_LIMITS.payloadBytes,
  }))
  const outputs =
    request.outputs?.map(({ name, stage_id, path = '' }) => ({ name, stage_id, path })) ??
    stages
      .filter(({ stage_id }) => !edges.some(({ from }) => from.stage_id === stage_id))
      .map(({ stage_id }) => ({ name: stage_id, stage_id, path: '' }))
  const { constraints = {} } = request
  return {
    name: request.name ?? null,
    stages: inOrder(stages, edges),
    edges,
    outputs,
    constraints: {
      ...constraints,
      deadline_s: constraints.deadline_s ?? DEFAULTS.deadlineS,
      min_score: constraints.min_score ?? DEFAULTS.minScore,
    },
    sample_sizes: request.sample_sizes ?? {},
  }
}

/** Orders stages so that each follows its producers; stages in a cycle come last. */
function inOrder(stages: readonly GraphStage[], edges: readonly GraphEdge[]): GraphStage[] {
  const remaining = new Map(stages.map((stage) => [stage.stage_id, stage]))
  const ordered: GraphStage[] = []
  for (;;) {
    const ready = [...remaining.values()].filter(
      ({ stage_id }) =>
        !edges.some(({ from, to }) => to.stage_id === stage_id && remaining.has(from.stage_id)),
    )
    if (ready.length === 0) return [...ordered, ...remaining.values()]
    for (const stage of ready) remaining.delete(stage.stage_id)
    ordered.push(...ready)
  }
}

/** Returns the reasons why a graph could never run, whatever the endpoints and nodes. */
export function faultsOf(graph: Graph): PlanReason[] {
  const reasons = [...unknownStages(graph), ...cycles(graph), ...twoWriters(graph), ...unwritable(graph)]
  const isBroken = reasons.some(({ code }) => code === 'unknown_stage' || code === 'cycle')
  // Reachability only makes sense once the edges are right.
  return isBroken ? reasons : [...reasons, ...deadEnds(graph)]
}

function unknownStages({ stages, edges, outputs }: Graph): PlanReason[] {
  const known = new Set(stages.map(({ stage_id }) => stage_id))
  const reasons: PlanReason[] = []
  const meant = asker([...known])
  const meantFrom = asker([...known, RUN_INPUT])
  const report = (
    what: string,
    name: string,
    { ask = meant, ...where }: Pick<PlanReason, 'stage_id' | 'edge_id'> & { ask?: typeof meant } = {},
  ) => {
    const question = ask(name)
    const message = `${what} "${name}", but no stage has this stage_id${question && `; ${question}`}`
    reasons.push({ code: 'unknown_stage', message, ...where })
  }
  for (const { edge_id, from, to } of edges) {
    if (from.stage_id !== RUN_INPUT && !known.has(from.stage_id))
      report(`edge "${edge_id}" begins at`, from.stage_id, { edge_id, ask: meantFrom })
    if (!known.has(to.stage_id)) report(`edge "${edge_id}" ends at`, to.stage_id, { edge_id })
  }
  for (const { name, stage_id } of outputs)
    if (!known.has(stage_id)) report(`output "${name}" comes from`, stage_id)
  for (const { stage_id, placement } of stages) {
    const other = placement?.same_node_as
    if (other !== undefined && !known.has(other))
      report(`stage "${stage_id}" must run on the node of`, other, { stage_id })
  }
  return reasons
}

function cycles({ stages, edges }: Graph): PlanReason[] {
  const before = new Set<string>()
  for (const { stage_id } of stages) {
    const waitsFor = edges.find(
      ({ from, to }) =>
        to.stage_id === stage_id &&
        stages.some((stage) => stage.stage_id === from.stage_id) &&
        !before.has(from.stage_id),
    )
    if (waitsFor) {
      const message = `stage "${stage_id}" waits for "${waitsFor.from.stage_id}", which waits for it: remove one of the edges`
      return [{ code: 'cycle', message, stage_id, edge_id: waitsFor.edge_id }]
    }
    before.add(stage_id)
  }
  return []
}

function twoWriters({ edges }: Graph): PlanReason[] {
  return edges.flatMap((edge, i) => {
    const other = edges
      .slice(0, i)
      .find(({ to }) => to.stage_id === edge.to.stage_id && overlap(to.path, edge.to.path))
    if (!other) return []
    const message = `edges "${other.edge_id}" and "${edge.edge_id}" write to "${other.to.path}" and "${edge.to.path}" of stage "${edge.to.stage_id}", which overlap: give them separate paths`
    return [{ code: 'two_writers' as const, message, stage_id: edge.to.stage_id, edge_id: edge.edge_id }]
  })
}

/**
 * Orders edges by when their values are written: those from the run's input when a stage is claimed, then those from
 * its producers. Both groups keep the request's order.
 */
export const inWriteOrder = <E extends Pick<GraphEdge, 'from'>>(edges: readonly E[]): E[] => [
  ...edges.filter(({ from }) => from.stage_id === RUN_INPUT),
  ...edges.filter(({ from }) => from.stage_id !== RUN_INPUT),
]

/** Placeholder for an edge value that isn't known yet. Each instance is distinct. */
class UnknownValue {}

/** Returns the unknown values within a value, at any depth. */
function unknownsIn(value: unknown, found = new Set<UnknownValue>()): Set<UnknownValue> {
  if (value instanceof UnknownValue) found.add(value)
  else if (typeof value === 'object' && value !== null)
    for (const inner of Object.values(value)) unknownsIn(inner, found)
  return found
}

/**
 * Returns edges whose target path cannot be created, given the static input of their stage and the edges before them.
 * Also returns edges whose value a later edge would overwrite.
 */
function unwritable({ stages, edges }: Graph): PlanReason[] {
  const known = new Map<string, unknown>(stages.map(({ stage_id, input }) => [stage_id, input]))
  const reasons: PlanReason[] = []
  const written = new Map<GraphEdge, UnknownValue>()
  const report = (edge: GraphEdge, why: string) => {
    const { stage_id } = edge.to
    const message = `edge "${edge.edge_id}" cannot write into stage "${stage_id}": ${why}`
    reasons.push({ code: 'two_writers', message, stage_id, edge_id: edge.edge_id })
  }
  for (const edge of inWriteOrder(edges)) {
    const { stage_id, path } = edge.to
    // Two edges into one path already have their own reason.
    if ([...written.keys()].some(({ to }) => to.stage_id === stage_id && overlap(to.path, path))) continue
    const value = new UnknownValue()
    try {
      known.set(stage_id, withValueAt(known.get(stage_id), path, value))
      written.set(edge, value)
    } catch (err) {
      if (!(err instanceof PointerError)) throw err
      report(edge, `${err.message}, because of its static input or another edge`)
    }
  }
  const surviving = new Set([...known.values()].flatMap((input) => [...unknownsIn(input)]))
  for (const [edge, value] of written)
    if (!surviving.has(value))
      report(edge, `a later edge overwrites its value at "${edge.to.path}": give them separate paths`)
  return reasons
}

/** Finds stages whose result reaches no output, so their work would be wasted. */
function deadEnds({ stages, edges, outputs }: Graph): PlanReason[] {
  const useful = new Set(outputs.map(({ stage_id }) => stage_id))
  for (let size = -1; size !== useful.size;) {
    size = useful.size
    for (const { from, to } of edges) if (useful.has(to.stage_id)) useful.add(from.stage_id)
  }
  return stages
    .filter(({ stage_id }) => !useful.has(stage_id))
    .map(({ stage_id }) => ({
      code: 'dead_end' as const,
      message: `the result of stage "${stage_id}" reaches no output: add an edge or an output, or remove the stage`,
      stage_id,
    }))
}
