import type { Graph, GraphEdge, GraphStage } from './graph.ts'

/** A stage without its static input and default output, which can be megabytes. */
export type SpecOutline = Omit<GraphStage, 'input' | 'default_output'>

/** A graph without its stages, and without the paths and templates of its edges. */
export interface GraphOutline extends Pick<Graph, 'outputs' | 'constraints'> {
  edges: (Pick<GraphEdge, 'transports'> & Record<'from' | 'to', { stage_id: string }>)[]
}

export function outlineOfStage(stage: GraphStage): SpecOutline {
  const { input: _, default_output: __, ...outline } = stage
  return outline
}

export const outlineOfGraph = ({ edges, outputs, constraints }: Graph): GraphOutline => ({
  edges: edges.map(({ from, to, transports }) => ({
    from: { stage_id: from.stage_id },
    to: { stage_id: to.stage_id },
    ...(transports && { transports }),
  })),
  outputs,
  constraints,
})
