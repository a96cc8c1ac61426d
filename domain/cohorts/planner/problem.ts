/** A stage as the planner sees it: its costs on each node, by the node's index. */
export interface PlannerStage {
  /** Milliseconds until the model is loaded and has a free slot; infinite on a node that cannot run the stage. */
  readonly earliestMs: Float64Array
  /** Milliseconds of the work itself. */
  readonly runMs: Float64Array
  /** Stages with the same number share one loaded model. */
  readonly model: number
  /** Memory needed to load the model. */
  readonly memoryMb: number
  /** 1 on the nodes that already have the model loaded. */
  readonly isLoaded: Uint8Array
  /** The stage on whose node this one has to run. */
  readonly sameNodeAs?: number
}

/** A hand-over between two stages, by their indexes. */
export interface PlannerEdge {
  readonly from: number
  readonly to: number
  /** Returns the duration of the hand-over between two nodes, in milliseconds. */
  readonly transferMs: (fromNode: number, toNode: number) => number
}

/** A graph of stages and the nodes that may run them. Indexes of stages are in topological order. */
export interface PlannerProblem {
  readonly stages: readonly PlannerStage[]
  readonly edges: readonly PlannerEdge[]
  /** Memory on each node that this graph may use to load models. */
  readonly freeMb: Float64Array
  /** True when no two stages may share a node, except those that must. */
  readonly spread: boolean
}

/** Each stage's node and times, by the stage's index. */
export interface Schedule {
  readonly nodes: Int32Array
  readonly startMs: Float64Array
  readonly endMs: Float64Array
  readonly makespanMs: number
}
