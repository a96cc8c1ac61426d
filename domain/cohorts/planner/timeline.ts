import { at, numberAt } from '../../at.ts'
import type { PlannerEdge, PlannerProblem, PlannerStage, Schedule } from './problem.ts'

/** The incoming edges of each stage. */
export function incomingOf({ stages, edges }: PlannerProblem): PlannerEdge[][] {
  const incoming = stages.map((): PlannerEdge[] => [])
  for (const edge of edges) incoming[edge.to]?.push(edge)
  return incoming
}

const NOWHERE = -1

/** A stage and, while it is placed, its node and times. */
interface Placement {
  readonly stage: PlannerStage
  readonly inputs: { readonly producer: Placement; readonly transferMs: PlannerEdge['transferMs'] }[]
  /** The stages that must share its node. */
  readonly tied: Placement[]
  node: number
  startMs: number
  endMs: number
}

/**
 * Places stages one after another, each into the first gap on its node that is long enough (HEFT insertion). A node
 * works on one stage at a time.
 */
export class Timeline {
  readonly #problem: PlannerProblem
  /** The stages by their index. */
  readonly #placements: readonly Placement[]
  readonly #placed: Placement[] = []
  /** The stages placed on each node, in order. */
  readonly #on: readonly Placement[][]

  constructor(problem: PlannerProblem, incoming: readonly (readonly PlannerEdge[])[]) {
    this.#problem = problem
    this.#placements = placementsOf(problem, incoming)
    this.#on = Array.from(problem.freeMb, () => [])
  }

  /** Removes all but the first `placed` stages. */
  clear(placed = 0): void {
    for (const placement of this.#placed.splice(placed).toReversed()) {
      at(this.#on, placement.node).pop()
      placement.node = NOWHERE
    }
  }

  get placed(): number {
    return this.#placed.length
  }

  /** Returns when a stage would end on a node, after its placed producers; infinite where it cannot run. */
  endOn(stage: number, node: number): number {
    const placement = at(this.#placements, stage)
    const { earliestMs, runMs } = placement.stage
    const earliest = numberAt(earliestMs, node)
    if (earliest === Infinity) return Infinity
    const here = at(this.#on, node)
    if (!this.#isAllowed(placement, node, here)) return Infinity
    let from = earliest
    for (const { producer, transferMs } of placement.inputs) {
      const arrival = producer.endMs + transferMs(producer.node, node)
      if (arrival > from) from = arrival
    }
    const run = numberAt(runMs, node)
    return gapFrom(here, from, run) + run
  }

  place(stage: number, node: number, endMs: number): void {
    const placement = at(this.#placements, stage)
    placement.node = node
    placement.endMs = endMs
    placement.startMs = endMs - numberAt(placement.stage.runMs, node)
    this.#placed.push(placement)
    at(this.#on, node).push(placement)
  }

  get makespanMs(): number {
    let last = 0
    for (const { endMs } of this.#placed) if (endMs > last) last = endMs
    return last
  }

  schedule(): Schedule {
    return {
      nodes: Int32Array.from(this.#placements, ({ node }) => node),
      startMs: Float64Array.from(this.#placements, ({ startMs }) => startMs),
      endMs: Float64Array.from(this.#placements, ({ endMs }) => endMs),
      makespanMs: this.makespanMs,
    }
  }

  /** Returns the node of a placed stage. */
  nodeOf(stage: number): number {
    return at(this.#placements, stage).node
  }

  /** Returns the node of a placed stage that must share its node with this one; undefined if there is none. */
  nodeOfTied(stage: number): number | undefined {
    return at(this.#placements, stage).tied.find(({ node }) => node !== NOWHERE)?.node
  }

  #isAllowed({ stage, tied }: Placement, node: number, here: readonly Placement[]): boolean {
    const { freeMb, spread } = this.#problem
    const { model, memoryMb, isLoaded } = stage
    for (const other of tied) if (other.node !== NOWHERE && other.node !== node) return false
    if (spread && here.some((other) => !tied.includes(other))) return false
    if (isLoaded[node] !== 0) return true
    let remainingMb = numberAt(freeMb, node)
    for (const other of here) {
      if (other.stage.model === model) return true
      if (other.stage.isLoaded[node] === 0 && isFirstOfModel(here, other)) remainingMb -= other.stage.memoryMb
    }
    return memoryMb <= remainingMb
  }
}

/** Returns whether this is the first stage on its node that uses its model. */
function isFirstOfModel(here: readonly Placement[], placement: Placement): boolean {
  const { model } = placement.stage
  for (const other of here) {
    if (other === placement) break
    if (other.stage.model === model) return false
  }
  return true
}

/** Returns the start of the first gap between placed stages that is long enough. */
function gapFrom(here: readonly Placement[], from: number, run: number): number {
  let start = from
  for (let again = true; again;) {
    again = false
    for (const other of here) {
      if (other.startMs < start + run && other.endMs > start) {
        start = other.endMs
        again = true
      }
    }
  }
  return start
}

function placementsOf(
  { stages }: PlannerProblem,
  incoming: readonly (readonly PlannerEdge[])[],
): Placement[] {
  const placements = stages.map((stage): Placement => ({
    stage,
    inputs: [],
    tied: [],
    node: NOWHERE,
    startMs: 0,
    endMs: 0,
  }))
  for (const [i, placement] of placements.entries()) {
    for (const { from, transferMs } of at(incoming, i))
      placement.inputs.push({ producer: at(placements, from), transferMs })
    const { sameNodeAs } = placement.stage
    if (sameNodeAs === undefined) continue
    const other = at(placements, sameNodeAs)
    placement.tied.push(other)
    other.tied.push(placement)
  }
  return placements
}
