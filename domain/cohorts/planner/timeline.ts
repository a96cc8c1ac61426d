import type { PlannerEdge, PlannerProblem, Schedule } from './problem.ts'

/** The incoming edges of each stage. */
export function incomingOf({ stages, edges }: PlannerProblem): PlannerEdge[][] {
  const incoming = stages.map((): PlannerEdge[] => [])
  for (const edge of edges) incoming[edge.to]?.push(edge)
  return incoming
}

const NOWHERE = -1

/**
 * Places stages one after the other, each into the first gap of its node that is long enough (the insertion of HEFT). A
 * node works on one stage at a time.
 */
export class Timeline {
  readonly nodes: Int32Array
  readonly startMs: Float64Array
  readonly endMs: Float64Array
  readonly #problem: PlannerProblem
  readonly #incoming: readonly (readonly PlannerEdge[])[]
  readonly #placed: number[] = []

  constructor(problem: PlannerProblem, incoming: readonly (readonly PlannerEdge[])[]) {
    const count = problem.stages.length
    this.nodes = new Int32Array(count).fill(NOWHERE)
    this.startMs = new Float64Array(count)
    this.endMs = new Float64Array(count)
    this.#problem = problem
    this.#incoming = incoming
  }

  clear(): void {
    this.nodes.fill(NOWHERE)
    this.#placed.length = 0
  }

  /** Returns when a stage would end on a node, behind producers that are placed; infinite where it cannot run. */
  endOn(stage: number, node: number): number {
    const { earliestMs, runMs } = this.#problem.stages[stage]!
    const earliest = earliestMs[node]!
    if (earliest === Infinity || !this.#isAllowed(stage, node)) return Infinity
    let from = earliest
    for (const { from: producer, transferMs } of this.#incoming[stage]!) {
      const arrival = this.endMs[producer]! + transferMs(this.nodes[producer]!, node)
      if (arrival > from) from = arrival
    }
    const run = runMs[node]!
    return this.#gapFrom(node, from, run) + run
  }

  place(stage: number, node: number, endMs: number): void {
    this.nodes[stage] = node
    this.endMs[stage] = endMs
    this.startMs[stage] = endMs - this.#problem.stages[stage]!.runMs[node]!
    this.#placed.push(stage)
  }

  get makespanMs(): number {
    let last = 0
    for (const stage of this.#placed) if (this.endMs[stage]! > last) last = this.endMs[stage]!
    return last
  }

  schedule(): Schedule {
    const { makespanMs } = this
    return { nodes: this.nodes.slice(), startMs: this.startMs.slice(), endMs: this.endMs.slice(), makespanMs }
  }

  /** Returns the node of a placed stage that has to share its node with this one; undefined when there is none. */
  nodeOfTied(stage: number): number | undefined {
    const tied = this.#placed.find((other) => this.#areTied(stage, other))
    return tied === undefined ? undefined : this.nodes[tied]
  }

  #areTied(stage: number, other: number): boolean {
    const { stages } = this.#problem
    return stages[stage]!.sameNodeAs === other || stages[other]!.sameNodeAs === stage
  }

  #isAllowed(stage: number, node: number): boolean {
    const { stages, freeMb, spread } = this.#problem
    const { model, memoryMb, isLoaded } = stages[stage]!
    let left = freeMb[node]!
    let isNew = isLoaded[node] === 0
    for (let i = 0; i < this.#placed.length; i++) {
      const other = this.#placed[i]!
      const areTied = this.#areTied(stage, other)
      if (this.nodes[other] !== node) {
        if (areTied) return false
        continue
      }
      if (spread && !areTied) return false
      if (stages[other]!.model === model) isNew = false
      else if (stages[other]!.isLoaded[node] === 0 && this.#isFirstOfModel(i, node))
        left -= stages[other]!.memoryMb
    }
    return !isNew || memoryMb <= left
  }

  /** Returns whether no stage placed before this one has its model on the node. */
  #isFirstOfModel(position: number, node: number): boolean {
    const { stages } = this.#problem
    const { model } = stages[this.#placed[position]!]!
    for (let i = 0; i < position; i++) {
      const other = this.#placed[i]!
      if (this.nodes[other] === node && stages[other]!.model === model) return false
    }
    return true
  }

  #gapFrom(node: number, from: number, run: number): number {
    let start = from
    for (let again = true; again;) {
      again = false
      for (const other of this.#placed) {
        if (this.nodes[other] !== node) continue
        if (this.startMs[other]! < start + run && this.endMs[other]! > start) {
          start = this.endMs[other]!
          again = true
        }
      }
    }
    return start
  }
}
