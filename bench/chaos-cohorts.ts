import { randomUUID } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import type { Database } from '../db/tables.ts'
import { chain } from '../test/faults/cohorts.ts'
import type { Evidence } from './chaos-checks.ts'
import { type Customer, postOnce, type Shift } from './chaos-customer.ts'
import type { Kill } from './chaos-kills.ts'
import { oneOf, type Random, type Tally } from './chaos-tally.ts'

const MAX_OPEN = 3
const ENDED = new Set(['succeeded', 'failed', 'cancelled'])

/** Builds the request for a three-stage run on one of the account's language models. */
export function cohortBody({ chatModels }: Customer, random: Random, name: string): object {
  const model = random() < 0.8 ? chatModels[0] : oneOf(random, chatModels)
  if (!model) throw new Error('a cohort needs a language model')
  const plan = { ...chain(model, Math.floor(200 + random() * 2_000)), name }
  return { plan, input: { text: name } }
}

/** Reads the account's cohorts, and starts another one unless enough are open. */
export async function runCohort(customer: Customer, shift: Shift, random: Random): Promise<void> {
  await lookAfterCohorts(customer, shift)
  if (customer.cohorts.filter(({ reported }) => reported === undefined).length >= MAX_OPEN) return
  const sent = { body: cohortBody(customer, random, `chaos-${randomUUID()}`), key: randomUUID() }
  const text = await shift.tally.insist(
    'cohort',
    () => postOnce(customer, 'v1/cohorts:run', sent),
    shift.patience,
  )
  if (text === undefined) return
  customer.cohorts.push({ taskId: (JSON.parse(text) as { task_id: string }).task_id })
}

/** Records which cohorts have ended. */
export async function lookAfterCohorts(
  { platform: { api }, cohorts }: Customer,
  { tally }: Shift,
): Promise<void> {
  for (const cohort of cohorts.filter(({ reported }) => reported === undefined)) {
    const read = () => api.get<{ status: string }>(`/tasks/${cohort.taskId}`)
    const status = (await tally.attempt('cohort status', read))?.status
    if (status !== undefined && ENDED.has(status)) cohort.reported = status
  }
}

interface EndedCohort {
  task_id: string
  status: string
  why: string | null
  task_status: string
  created_at: Date
  completed_at: Date
  last: number
  numbers: number
  ends: string[]
  stages: { name: string; status: string; attempt: number; wins: number; booked: string[]; sum: string }[]
}

/** The default number of attempts per stage. */
const ATTEMPTS = 3
const PAID = ['capture', 'hold', 'payout']
const RETURNED = ['hold', 'refund']

/** Checks the outcome, events and ledger entries of every cohort, whether or not a client got its id. */
export async function checkCohorts(
  db: Kysely<Database>,
  tally: Tally,
  { customers, kills }: Pick<Evidence, 'customers' | 'kills'>,
): Promise<void> {
  const { rows } = await sql<EndedCohort>`
    select cohort.task_id, cohort.status, cohort.error->>'message' as why, task.status as task_status,
      cohort.created_at, task.completed_at,
      cohort.event_sequence as last,
      (select count(distinct sequence)::int from cohort_event where cohort_id = cohort.id) as numbers,
      array(select type from cohort_event where cohort_id = cohort.id
        and type in ('cohort.succeeded', 'cohort.failed', 'cohort.cancelled')) as ends,
      (select coalesce(json_agg(json_build_object('name', name, 'status', status, 'attempt', attempt,
        'wins', (select count(*) from cohort_event where cohort_id = cohort.id and stage_name = stage.name
          and type = 'stage.succeeded'),
        'booked', array(select kind || ' ' || purse from ledger_line where task_id = stage.id order by 1),
        'sum', (select coalesce(sum(amount_micro), 0) from ledger_line where task_id = stage.id))), '[]')
        from cohort_stage stage where stage.cohort_id = cohort.id) as stages
    from cohort join task on task.id = cohort.task_id`.execute(db)
  const byTask = new Map(rows.map((row) => [row.task_id, row]))
  for (const { cohorts, name } of customers) {
    for (const { taskId, reported } of cohorts) {
      const row = byTask.get(taskId)
      if (!row) tally.violation('nothing is lost', `cohort for ${name}'s task ${taskId}`)
      else if (reported !== undefined && reported !== row.task_status)
        tally.violation(
          'a reported terminal status never changes',
          `cohort for task ${taskId} was reported as ${reported} but is now ${row.status}`,
        )
    }
  }
  for (const row of rows) checkCohort(tally, row, kills)
}

function checkCohort(tally: Tally, row: EndedCohort, kills: readonly Kill[]): void {
  const { task_id, status, why, task_status, last, numbers, ends, stages } = row
  const what = `cohort for task ${task_id} (${status}${why === null ? '' : `: ${why}`})`
  const isDone = status === 'succeeded'
  if (!isDone && !lostItsNode(row, kills))
    tally.violation('cohorts succeed', `${what} ${JSON.stringify(stages)}`)
  if (isDone !== (task_status === 'succeeded'))
    tally.violation('a cohort and its task end with the same status', `${what} is ${task_status}`)
  if (numbers !== last) tally.violation("a cohort's events have no gaps", `${what}: ${numbers} of ${last}`)
  if (ends.length !== 1 || ends[0] !== `cohort.${status}`)
    tally.violation('one terminal event', `${what}: ${ends.join(', ') || 'none'}`)
  for (const stage of stages) {
    const kinds = [...new Set(stage.booked.map((line) => line.split(' ')[0]))]
    const expected = isDone ? PAID : RETURNED
    const isOnce = new Set(stage.booked).size === stage.booked.length
    if (Number(stage.sum) !== 0 || !isOnce || kinds.join() !== expected.join())
      tally.violation(
        'each stage is paid or refunded once',
        `${what} ${stage.name}: ${stage.booked.join(', ')}`,
      )
    if (isDone && stage.wins !== 1)
      tally.violation('each stage succeeds once', `${what} ${stage.name}: ${stage.wins} times`)
  }
}

/**
 * Returns whether a stage lost its node on every attempt because the only node was killed at least `ATTEMPTS` times
 * while the cohort ran.
 */
function lostItsNode(
  { why, created_at, completed_at, stages }: EndedCohort,
  kills: readonly Kill[],
): boolean {
  const losses = kills.filter(
    ({ prey, at }) => prey === 'node' && at > created_at.getTime() && at < completed_at.getTime(),
  )
  return (
    why === "the stage's node was lost" &&
    losses.length >= ATTEMPTS &&
    stages.some(({ status, attempt }) => status === 'failed' && attempt === ATTEMPTS)
  )
}
