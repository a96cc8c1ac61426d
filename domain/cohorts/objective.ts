import type { NodeSnapshot } from '../placement/node-snapshot.ts'
import { costsOf, isAble, type StageModel, type NodeRequirements } from './costs.ts'
import type { Graph, GraphStage } from './graph.ts'

interface Candidates {
  models: ReadonlyMap<string, StageModel>
  fallbacks: ReadonlyMap<string, readonly (StageModel & { ref: string })[]>
}

/** Everything that decides the order of a graph's endpoints. Can be copied to a worker thread. */
export interface OrderInput extends Candidates {
  graph: Graph
  nodes: readonly NodeSnapshot[]
  wanted: NodeRequirements
}

/** Returns the graph with each stage's cheapest currently runnable endpoint first. */
export const cheapestAble = ({ graph, nodes, wanted, ...candidates }: OrderInput): Graph =>
  cheapestFirst(graph, candidates, (stage, model) => isAble(costsOf(stage, model, nodes, wanted)))

/**
 * Returns a graph for the objective `cost`: each stage starts with the cheapest of its endpoint and fallbacks, and
 * falls back to more expensive ones. Endpoints of equal price keep their order, and endpoints that no node can run now
 * come last.
 */
export function cheapestFirst(
  graph: Graph,
  { models, fallbacks }: Candidates,
  fits: (stage: GraphStage, model: StageModel) => boolean,
): Graph {
  const stages = graph.stages.map((stage): GraphStage => {
    const primary = models.get(stage.stage_id)
    const others = fallbacks.get(stage.stage_id) ?? []
    if (!primary || others.length === 0) return stage
    const known = [{ ...primary, ref: stage.endpoint_id ?? primary.endpoint_id }, ...others].map((model) => ({
      ...model,
      isLate: fits(stage, model) ? 0 : 1,
    }))
    const [first, ...rest] = known
      .toSorted((a, b) => a.isLate - b.isLate || a.price_micro - b.price_micro)
      .map(({ ref }) => ref)
    if (first === undefined || first === known[0]?.ref)
      return { ...stage, fallbacks: [...rest, ...lost(stage, known)] }
    const { model_config_id: _, ...spec } = stage
    return { ...spec, endpoint_id: first, fallbacks: [...rest, ...lost(stage, known)] }
  })
  return { ...graph, stages }
}

/** Fallbacks that can't be called now. */
const lost = ({ fallbacks }: GraphStage, known: readonly { ref: string }[]): string[] =>
  fallbacks.filter((ref) => !known.some((one) => one.ref === ref))
