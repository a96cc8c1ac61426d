// The cohort planner on random layered graphs: its CPU per plan, its makespans compared with a lower bound and with
// placing stages one by one, and small graphs compared with the best of all assignments: npm run bench:plan
import { planGraph } from '../domain/cohorts/plan-graph.ts'
import { planSchedule } from '../domain/cohorts/planner/plan-schedule.ts'
import type { PlannerProblem, Schedule } from '../domain/cohorts/planner/problem.ts'
import { incomingOf, Timeline } from '../domain/cohorts/planner/timeline.ts'
import { largeRequest } from './plan/large-request.ts'
import { randomProblem } from './plan/random-graphs.ts'
import { randomNumbers } from './random-numbers.ts'
import { unlessOnce } from './rounds.ts'

const LARGE = [
  { nodes: 1_000, stages: 20, runs: 200 },
  { nodes: 1_000, stages: 3, runs: 200 },
  { nodes: 100, stages: 20, runs: 200 },
  { nodes: 5_000, stages: 20, runs: 30 },
]
const SMALL = { nodes: 6, stages: 5, runs: unlessOnce(200, 5) }
/** The largest graph that a request may have, measured from reading its models to presenting the plan. */
const WHOLE = { nodes: 1_000, stages: 64, edges: 256, runs: unlessOnce(30, 2) }
const WHOLE_GOAL_MS = 500
const WARM_UP = unlessOnce(20)

const quantile = (values: readonly number[], share: number): number => {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN
}
const mean = (values: readonly number[]): number => values.reduce((sum, one) => sum + one, 0) / values.length
const verdict = (isMet: boolean) => (isMet ? 'met' : 'MISSED')

/**
 * Places each stage when its inputs are ready, as for a client that calls one stage after the other: on a node that has
 * the model loaded, otherwise on the node that can load it soonest, ignoring the node's speed and site.
 */
function stageByStage(problem: PlannerProblem): number {
  const incoming = incomingOf(problem)
  const end = new Float64Array(problem.stages.length)
  const nodes = new Int32Array(problem.stages.length)
  for (const [stage, { earliestMs, runMs }] of problem.stages.entries()) {
    let [best, soonest] = [0, Infinity]
    for (let node = 0; node < runMs.length; node++)
      if (earliestMs[node]! < soonest) [best, soonest] = [node, earliestMs[node]!]
    // The client requests the stage only when all inputs have arrived, and its model is loaded only then.
    const ready = incoming[stage]!.reduce(
      (latest, { from, transferMs }) => Math.max(latest, end[from]! + transferMs(nodes[from]!, best)),
      0,
    )
    nodes[stage] = best
    end[stage] = ready + soonest + runMs[best]!
  }
  return Math.max(...end)
}

/** Returns the makespan of the best assignment, with stages placed in index order and in rank order. */
function exhaustive(problem: PlannerProblem, planned: Schedule): number {
  const { stages } = problem
  const count = problem.freeMb.length
  const timeline = new Timeline(problem, incomingOf(problem))
  const byStart = stages
    .map((_, stage) => stage)
    .toSorted((a, b) => planned.startMs[a]! - planned.startMs[b]! || a - b)
  let best = planned.makespanMs
  for (const order of [stages.map((_, stage) => stage), byStart]) {
    for (let code = 0; code < count ** stages.length; code++) {
      timeline.clear()
      for (const stage of order) {
        const node = Math.floor(code / count ** stage) % count
        const end = timeline.endOn(stage, node)
        if (end >= best) break
        timeline.place(stage, node, end)
        if (stage === order.at(-1)) best = timeline.makespanMs
      }
    }
  }
  return best
}

for (const { runs, ...shape } of LARGE) {
  const chance = randomNumbers(17)
  const [cpu, overBound, overGreedy]: number[][] = [[], [], []]
  for (let run = -WARM_UP; run < runs; run++) {
    const problem = randomProblem(chance, shape)
    const before = process.cpuUsage()
    const planned = planSchedule(problem)
    const used = process.cpuUsage(before)
    if (run < 0 || !planned) continue
    cpu!.push((used.user + used.system) / 1_000)
    overBound!.push(planned.schedule.makespanMs / planned.lowerBoundMs)
    overGreedy!.push(planned.schedule.makespanMs / stageByStage(problem))
  }
  const [p50, p99, bound, greedy] = [
    quantile(cpu!, 0.5),
    quantile(cpu!, 0.99),
    quantile(overBound!, 0.5),
    quantile(overGreedy!, 0.5),
  ]
  const isGoal = shape.nodes === 1_000 && shape.stages === 20
  console.log(
    `${shape.nodes} nodes, ${shape.stages} stages: p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms of CPU; makespan ${bound.toFixed(2)} of the bound, ${greedy.toFixed(2)} of stage by stage` +
      (isGoal
        ? ` (goals 15, 40, 1.3, 0.5: ${verdict(p50 <= 15 && p99 <= 40 && bound <= 1.3 && greedy <= 0.5)})`
        : ''),
  )
}
{
  const { runs, ...shape } = WHOLE
  const chance = randomNumbers(19)
  const cpu: number[] = []
  for (let run = -1; run < runs; run++) {
    const request = largeRequest(chance, shape)
    const before = process.cpuUsage()
    planGraph(request)
    const used = process.cpuUsage(before)
    if (run >= 0) cpu.push((used.user + used.system) / 1_000)
  }
  const [p50, most] = [quantile(cpu, 0.5), Math.max(...cpu)]
  console.log(
    `${shape.nodes} nodes, ${shape.stages} stages, ${shape.edges} edges, whole plan: p50 ${p50.toFixed(0)} ms, at most ${most.toFixed(0)} ms of CPU (goal ${WHOLE_GOAL_MS}: ${verdict(most <= WHOLE_GOAL_MS)})`,
  )
}
const chance = randomNumbers(18)
const ratios: number[] = []
for (let run = 0; run < SMALL.runs; run++) {
  const problem = randomProblem(chance, { ...SMALL, models: 8, sites: 3 })
  const planned = planSchedule(problem)
  if (planned) ratios.push(planned.schedule.makespanMs / exhaustive(problem, planned.schedule))
}
const optimal = ratios.filter((ratio) => ratio < 1 + 1e-9).length / ratios.length
console.log(
  `${SMALL.nodes} nodes, ${SMALL.stages} stages against every assignment (${ratios.length} graphs): best in ${(100 * optimal).toFixed(0)} %, mean ${mean(ratios).toFixed(3)}, p99 ${quantile(ratios, 0.99).toFixed(2)} (goal: mean 1.03: ${verdict(mean(ratios) <= 1.03)})`,
)
