// Compares a chain of three warm stages as a cohort with a client that calls the same three endpoints in sequence
// through `infer`: npm run bench:cohort [-- --runs 40]. The two alternate. The gateway, control worker and nodes share
// one process; Temporal, PostgreSQL and the model servers have their own. Prints where a run spends its time, and how
// long its history is.
import { parseArgs } from 'node:util'
import type { CohortEvent, CohortSummary } from '../schemas/cohorts/cohort.ts'
import type { PlanRequest } from '../schemas/cohorts/plan.ts'
import { stopDatabases } from '../test/support/servers/database.ts'
import { startInferenceWorld } from '../test/support/servers/worlds/inference-world.ts'
import { judge } from './floors.ts'
import { median } from './platform.ts'
import { unlessOnce } from './rounds.ts'

const { values } = parseArgs({ options: { runs: { type: 'string', default: '40' } } })
const RUNS = unlessOnce(Number(values.runs), 3)
const WARM_UP = 5
const STAGE_DELAY_S = 0.05
const POLL_INTERVAL_MS = 10
const STAGES = ['one', 'two', 'three'] as const
/** Twice the time of the bare stages. */
const GOAL_MS = 300

await using _databases = { [Symbol.asyncDispose]: stopDatabases }
await using world = await startInferenceWorld({ HEARTH_RATE_LIMIT: '0' })
await using _control = await world.control()
await using _first = await world.node()
await using _second = await world.node()
const endpoints = await Promise.all(STAGES.map((name) => world.endpoint({ name })))

const plan: PlanRequest = {
  name: 'chain',
  stages: STAGES.map((stage_id, i) => ({
    stage_id,
    endpoint_id: endpoints[i]!.id,
    input: { wait_s: STAGE_DELAY_S },
  })),
  edges: STAGES.map((stage_id, i) => ({
    from: i === 0 ? { stage_id: 'input', path: '/value' } : { stage_id: STAGES[i - 1]!, path: '/waited_s' },
    to: { stage_id, path: '/text' },
  })),
}
const call = async <T>(method: 'GET' | 'POST', path: string, body?: object): Promise<T> => {
  const headers = { 'x-account-id': world.accountId, 'x-user-id': 'bench' }
  const answer = await world.api.call(method, path, { key: world.key, headers, ...(body && { body }) })
  if (answer.status >= 300) throw new Error(`${path}: ${JSON.stringify(answer.body)}`)
  return answer.body as T
}

interface Run {
  ms: number
  cohort: CohortSummary
}

async function runCohort(): Promise<Run> {
  const began = performance.now()
  const { task_id: taskId } = await call<CohortSummary>('POST', '/api/v1/cohorts:run', {
    plan,
    input: { value: 1 },
  })
  for (;;) {
    const task = await call<{ status: string }>('GET', `/api/builder/v1/tasks/${taskId}`)
    if (task.status === 'failed') throw new Error('a run has failed')
    if (task.status === 'succeeded') break
    await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL_MS))
  }
  const ms = performance.now() - began
  return { ms, cohort: await call('GET', `/api/v1/tasks/${taskId}/cohort`) }
}

async function callChain(): Promise<number> {
  const began = performance.now()
  let value = 1
  for (const endpoint of endpoints) {
    const { status, body } = await world.infer(endpoint, { input: { wait_s: STAGE_DELAY_S, text: value } })
    if (status !== 200) throw new Error(`infer answered ${status}: ${JSON.stringify(body)}`)
    value = body.result.waited_s
  }
  return performance.now() - began
}

for (let i = 0; i < WARM_UP; i++) {
  await runCohort()
  await callChain()
}
const runs: Run[] = []
const chains: number[] = []
for (let i = 0; i < RUNS; i++) {
  runs.push(await runCohort())
  chains.push(await callChain())
}

const p99 = (figures: readonly number[]) =>
  figures.toSorted((a, b) => a - b)[Math.ceil(figures.length * 0.99) - 1]!
const show = (name: string, figures: readonly number[]) =>
  console.log(`${name.padEnd(34)} p50 ${median(figures).toFixed(1)} ms   p99 ${p99(figures).toFixed(1)} ms`)
const whole = runs.map(({ ms }) => ms)
console.log(
  `${RUNS} runs of three warm stages of ${STAGE_DELAY_S * 1_000} ms, one after another, on two nodes`,
)
show('cohort', whole)
show('the same through infer', chains)

for (const [i, stage] of STAGES.entries()) {
  const of = (pick: (stage: CohortSummary['stages'][number]) => number | null) =>
    median(runs.map(({ cohort }) => pick(cohort.stages[i]!) ?? 0)).toFixed(0)
  console.log(
    `stage ${stage}: wait ${of(({ wait_ms }) => wait_ms)} ms, load ${of(({ load_ms }) => load_ms)} ms, run ${of(({ run_ms }) => run_ms)} ms`,
  )
}

/** Prints the median time of each step from event to event, in the order of the first run. */
async function printSteps(): Promise<void> {
  const times = new Map<string, number[]>()
  for (const { cohort } of runs) {
    const { events } = await call<{ events: CohortEvent[] }>('GET', `${cohort.events_url}?limit=500`)
    for (const { type, stage_id, edge_id, created_at } of events) {
      const edge = cohort.edges.find((one) => one.edge_id === edge_id)?.name
      const step = `${type} ${stage_id ?? edge ?? ''}`.trim()
      times.set(step, [...(times.get(step) ?? []), Date.parse(created_at) - Date.parse(cohort.created_at)])
    }
  }
  console.log('median time of each event after the request:')
  for (const [step, figures] of [...times].toSorted(([, a], [, b]) => median(a) - median(b)))
    console.log(`  ${median(figures).toFixed(0).padStart(5)} ms  ${step}`)
}
await printSteps()

const handle = world.temporal.client.workflow.getHandle(`cohort/${runs.at(-1)!.cohort.cohort_id}`)
const { events: history } = await handle.fetchHistory()
const count = history?.length ?? 0
console.log(`history: ${count} events, ${(count / STAGES.length).toFixed(1)} per stage`)

judge('cohort', [
  { what: 'p50, ms', measured: median(whole), goal: GOAL_MS },
  { what: 'history events of a stage', measured: count / STAGES.length, goal: 12 },
])
