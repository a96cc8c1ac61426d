import assert from 'node:assert/strict'
import { randomProblem } from '../../../bench/plan/random-graphs.ts'
import { randomNumbers } from '../../../bench/random-numbers.ts'
import { planSchedule } from '../../../domain/cohorts/planner/plan-schedule.ts'
import type {
  PlannerEdge,
  PlannerProblem,
  PlannerStage,
  Schedule,
} from '../../../domain/cohorts/planner/problem.ts'

const NODES = 3

interface StageCosts {
  run: readonly number[]
  ready?: readonly number[]
  model?: number
  memoryMb?: number
  sameNodeAs?: number
}

function stage({
  run,
  ready = run.map(() => 0),
  model = 0,
  memoryMb = 0,
  sameNodeAs,
}: StageCosts): PlannerStage {
  return {
    earliestMs: Float64Array.from(ready),
    runMs: Float64Array.from(run),
    model,
    memoryMb,
    isLoaded: new Uint8Array(run.length),
    ...(sameNodeAs !== undefined && { sameNodeAs }),
  }
}

const edge = (from: number, to: number, ms = 0): PlannerEdge => ({
  from,
  to,
  transferMs: (a, b) => (a === b ? 0 : ms),
})

const problem = (
  stages: readonly PlannerStage[],
  edges: readonly PlannerEdge[] = [],
  more: Partial<PlannerProblem> = {},
): PlannerProblem => ({ stages, edges, freeMb: new Float64Array(NODES).fill(1_000), spread: false, ...more })

function planned(plannerProblem: PlannerProblem): Schedule {
  const plan = planSchedule(plannerProblem)
  assert.ok(plan)
  return plan.schedule
}

/** Fails if a schedule violates any of its problem's rules. */
function check(
  { stages, edges, freeMb }: PlannerProblem,
  { nodes, startMs, endMs, makespanMs }: Schedule,
): void {
  for (const [i, { earliestMs, runMs }] of stages.entries()) {
    assert.ok(startMs[i]! >= earliestMs[nodes[i]!]! - 1e-6)
    assert.ok(Math.abs(endMs[i]! - startMs[i]! - runMs[nodes[i]!]!) < 1e-6)
    for (const [j] of stages.entries())
      if (i < j && nodes[i] === nodes[j])
        assert.ok(
          startMs[i]! >= endMs[j]! - 1e-6 || startMs[j]! >= endMs[i]! - 1e-6,
          'two stages overlap on one node',
        )
  }
  for (const { from, to, transferMs } of edges)
    assert.ok(startMs[to]! >= endMs[from]! + transferMs(nodes[from]!, nodes[to]!) - 1e-6)
  for (const node of new Set(nodes)) {
    const loads = new Map<number, number>()
    for (const [i, one] of stages.entries())
      if (nodes[i] === node && one.isLoaded[node] === 0) loads.set(one.model, one.memoryMb)
    const takenMb = [...loads.values()].reduce((sum, mb) => sum + mb, 0)
    assert.ok(takenMb <= freeMb[node]!, `${takenMb} MB of ${freeMb[node]}`)
  }
  assert.equal(makespanMs, Math.max(...endMs))
}

describe('the cohort planner', () => {
  it('obeys every rule, never beats its own lower bound, and is deterministic', () => {
    const chance = randomNumbers(5)
    for (let run = 0; run < 60; run++) {
      const shape = {
        nodes: 2 + Math.floor(chance() * 40),
        stages: 2 + Math.floor(chance() * 20),
        models: 12,
      }
      const plannerProblem = randomProblem(chance, { ...shape, sites: 3 })
      const plan = planSchedule(plannerProblem)
      if (!plan) continue
      check(plannerProblem, plan.schedule)
      assert.ok(plan.schedule.makespanMs >= plan.lowerBoundMs - 1e-6)
      assert.equal(plan.schedule.endMs[plan.criticalPath.at(-1)!], plan.schedule.makespanMs)
      assert.deepEqual(planSchedule(plannerProblem), plan)
    }
  })

  it('runs independent stages on several nodes, and loads models while producers work', () => {
    const slow = [100, 100, 100]
    const { makespanMs, nodes } = planned(
      problem(
        [
          stage({ run: slow }),
          stage({ run: slow, model: 1 }),
          stage({ run: slow, model: 2, ready: [90, 90, 90] }),
        ],
        [edge(0, 2, 5), edge(1, 2, 5)],
      ),
    )

    assert.notEqual(nodes[0], nodes[1])
    assert.equal(makespanMs, 205)
  })

  it('keeps a chain on one node when hand-overs cost more than a faster node saves', () => {
    const stages = [stage({ run: [10, 100, 100] }), stage({ run: [40, 10, 100], model: 1 })]

    assert.deepEqual([...planned(problem(stages, [edge(0, 1, 100)])).nodes], [0, 0])
    assert.deepEqual([...planned(problem(stages, [edge(0, 1, 5)])).nodes], [0, 1])
  })

  it('counts a model once for all of its stages on a node, and never loads more than fits', () => {
    const heavy = { run: [10, 500, 500], memoryMb: 700 }
    const shared = planned(problem([stage(heavy), stage(heavy)]))
    const apart = planned(problem([stage(heavy), stage({ ...heavy, model: 1 })]))

    assert.deepEqual([...shared.nodes], [0, 0])
    assert.equal(new Set(apart.nodes).size, 2)
  })

  it('keeps stages together or apart as the request demands', () => {
    const fast = [10, 500, 500]
    const tied = [stage({ run: fast }), stage({ run: [500, 500, 10], model: 1, sameNodeAs: 0 })]
    const together = planned(problem(tied))
    const spread = planned(problem([stage({ run: fast }), stage({ run: fast })], [], { spread: true }))

    assert.equal(together.nodes[0], together.nodes[1])
    assert.notEqual(spread.nodes[0], spread.nodes[1])
  })

  it('keeps stages together whichever is placed first and wherever each would run alone', () => {
    const many = (least: number) => Array.from({ length: 80 }, (_, node) => 10 + Math.abs(node - least))
    const more = { freeMb: new Float64Array(80).fill(1_000) }
    const [leader, follower] = [stage({ run: many(0) }), { run: many(79).map((ms) => 5 * ms), model: 1 }]
    const { nodes } = planned(problem([leader, stage({ ...follower, sameNodeAs: 0 })], [], more))

    assert.equal(nodes[0], nodes[1])
  })

  it('returns no plan when a stage fits nowhere', () => {
    const nowhere = stage({ run: [1, 1, 1], ready: [Infinity, Infinity, Infinity] })

    assert.equal(planSchedule(problem([stage({ run: [1, 1, 1] }), nowhere])), undefined)
  })
})
