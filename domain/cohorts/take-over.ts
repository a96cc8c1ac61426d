import { canonicalJson } from '../canonical-json.ts'
import { type Graph, RUN_INPUT } from './graph.ts'

/** The graph of a finished cohort and the state of its stages. */
export interface FinishedCohort {
  graph: Pick<Graph, 'stages' | 'edges'>
  /** The stages whose results are still stored, by name. */
  kept: ReadonlySet<string>
  /** The stages that ended without a result, by name. */
  missing: ReadonlySet<string>
}

export interface TakeOverPlan {
  /** The stages whose results are reused, by name. */
  standing: Set<string>
  /** Stages without a result that don't have to run, because their consumers continued without them. */
  spare: Set<string>
}

/**
 * Decides which stages of an earlier cohort a new one on the same input takes over. A result is reused only if the
 * stage and all stages before it are unchanged. Each producer's result must be reused too, or must have been missing in
 * the earlier cohort as well. Only values are stored with a result. Anything else that a stage handed over is gone with
 * the node that held it, so if a consumer needs it, the stage runs again.
 */
export function takeOver(
  { stages, edges, outputs }: Pick<Graph, 'stages' | 'edges' | 'outputs'>,
  { graph: before, kept, missing }: FinishedCohort,
  isByValue: (edgeId: string) => boolean,
): TakeOverPlan {
  const known = new Map(before.stages.map((stage) => [stage.stage_id, canonicalJson(stage)]))
  const incoming = (of: Pick<Graph, 'edges'>, name: string) =>
    of.edges.filter(({ to }) => to.stage_id === name)
  const producersOf = (name: string) =>
    incoming({ edges }, name).flatMap(({ from }) => (from.stage_id === RUN_INPUT ? [] : from.stage_id))
  const same = new Set<string>()
  for (const stage of stages) {
    const name = stage.stage_id
    if (
      canonicalJson(stage) === known.get(name) &&
      canonicalJson(incoming({ edges }, name)) === canonicalJson(incoming(before, name)) &&
      producersOf(name).every((producer) => same.has(producer))
    )
      same.add(name)
  }
  const standing = new Set([...kept].filter((name) => same.has(name)))
  for (;;) {
    const running = new Set<string>()
    // The order is topological, so this visits consumers before their producers.
    for (const { stage_id: name } of stages.toReversed()) {
      const isNeeded =
        outputs.some(({ stage_id }) => stage_id === name) ||
        edges.some(({ from, to }) => from.stage_id === name && running.has(to.stage_id))
      if (isNeeded && !standing.has(name)) running.add(name)
    }
    const fallen = [...standing].filter(
      (name) =>
        !producersOf(name).every((producer) => standing.has(producer) || missing.has(producer)) ||
        edges.some(
          ({ edge_id, from, to }) =>
            from.stage_id === name && running.has(to.stage_id) && !isByValue(edge_id),
        ),
    )
    if (fallen.length === 0) {
      const spare = stages.map(({ stage_id }) => stage_id)
      return { standing, spare: new Set(spare.filter((name) => !standing.has(name) && !running.has(name))) }
    }
    for (const name of fallen) standing.delete(name)
  }
}
