import type { PlannerEdge, PlannerProblem, Schedule } from './problem.ts'

/** The incoming edges of each stage. */
export function incomingOf({ stages, edges }: PlannerProblem): PlannerEdge[][] {
  const incoming = stages.map((): PlannerEdge[] => [])
  for (const edge of edges) incoming[edge.to]?.push(edge)
  return incoming
}

const NOWHERE = -1

/**
 * Places stages one after another, each into the first gap of its node that is long enough (HEFT insertion). A node
 * works on one stage at a time.
 */
export class Timeline {
  readonly nodes: Int32Array
  readonly startMs: Float64Array
  readonly endMs: Float64Array
  readonly #problem: PlannerProblem
  readonly #incoming: readonly (readonly PlannerEdge[])[]
  readonly #placed: number[] = []
  /** The placed stages of each node, in their order. */
  readonly #on: number[][]
  /** For each stage, the stages that must share its node. */
  readonly #tied: readonly (readonly number[])[]

  constructor(problem: PlannerProblem, incoming: readonly (readonly PlannerEdge[])[]) {
    const count = problem.stages.length
    this.nodes = new Int32Array(count).fill(NOWHERE)
    this.startMs = new Float64Array(count)
    this.endMs = new Float64Array(count)
    this.#problem = problem
    this.#incoming = incoming
    this.#on = Array.from(problem.freeMb, () => [])
    this.#tied = tiesOf(problem)
  }

  /** Removes all but the first `placed` stages. */
  clear(placed = 0): void {
    while (this.#placed.length > placed) {
      const stage = this.#placed.pop()!
      this.#on[this.nodes[stage]!]!.pop()
      this.nodes[stage] = NOWHERE
    }
  }

  get placed(): number {
    return this.#placed.length
  }

  /** Returns when a stage would end on a node, after its placed producers; infinite where it cannot run. */
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
    this.#on[node]!.push(stage)
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

  /** Returns the node of a placed stage that must share its node with this one; undefined if there is none. */
  nodeOfTied(stage: number): number | undefined {
    const tied = this.#tied[stage]!.find((other) => this.nodes[other] !== NOWHERE)
    return tied === undefined ? undefined : this.nodes[tied]
  }

  #isAllowed(stage: number, node: number): boolean {
    const { stages, freeMb, spread } = this.#problem
    const { model, memoryMb, isLoaded } = stages[stage]!
    const tied = this.#tied[stage]!
    for (const other of tied) if (this.nodes[other] !== NOWHERE && this.nodes[other] !== node) return false
    const here = this.#on[node]!
    if (spread && here.some((other) => !tied.includes(other))) return false
    if (isLoaded[node] !== 0) return true
    let left = freeMb[node]!
    for (const [i, other] of here.entries()) {
      if (stages[other]!.model === model) return true
      if (stages[other]!.isLoaded[node] === 0 && this.#isFirstOfModel(here, i))
        left -= stages[other]!.memoryMb
    }
    return memoryMb <= left
  }

  /** Returns whether no stage placed before this one on its node has its model. */
  #isFirstOfModel(here: readonly number[], position: number): boolean {
    const { stages } = this.#problem
    const { model } = stages[here[position]!]!
    for (let i = 0; i < position; i++) if (stages[here[i]!]!.model === model) return false
    return true
  }

  #gapFrom(node: number, from: number, run: number): number {
    let start = from
    for (let again = true; again;) {
      again = false
      for (const other of this.#on[node]!) {
        if (this.startMs[other]! < start + run && this.endMs[other]! > start) {
          start = this.endMs[other]!
          again = true
        }
      }
    }
    return start
  }
}

function tiesOf({ stages }: PlannerProblem): number[][] {
  const tied = stages.map((): number[] => [])
  for (const [stage, { sameNodeAs }] of stages.entries()) {
    if (sameNodeAs === undefined) continue
    tied[stage]!.push(sameNodeAs)
    tied[sameNodeAs]!.push(stage)
  }
  return tied
}
