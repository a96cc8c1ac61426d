import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { ask, burst, checkBooks, endings, type Model, makeModel, startRun } from '../faults/work.ts'
import { eventually } from '../support/assertions/until.ts'
import { regressionTable } from '../support/builders/tables.ts'
import { uploadTable } from '../support/servers/builder-client.ts'
import { skipBecause } from '../support/skip.ts'
import { type Checkout, checkOutRelease, makeLaterVersion, RELEASES } from './checkouts.ts'
import { Fleet } from './fleet.ts'

/** Together the runs last longer than the change of versions. */
const RUNS = 3
const ROWS = 80_000

interface Run {
  status: string
  error_message: string | null
  metrics: { epochs?: unknown[] } | null
}

for (const release of RELEASES) {
  describe(`${release.tag} and a later version over one database`, function () {
    this.timeout(600_000)
    let older: Checkout
    let later: Checkout
    before(async function () {
      try {
        older = await checkOutRelease(release)
      } catch (err) {
        if (!String(err).includes('git')) throw err
        return skipBecause(this, `this clone does not hold the commit ${release.commit}`)
      }
      later = await makeLaterVersion()
    })
    after(() => {
      older?.[Symbol.dispose]()
      later?.[Symbol.dispose]()
    })

    it('hand all work over when the later one takes the place of the older', () =>
      moveToWorkflow(older, later))

    it('hand all work over when the older one comes back, with the later migration in place', () =>
      moveToWorkflow(later, older))
  })
}

/** Work continues while the processes of one version start beside those of the other, which then stop. */
async function moveToWorkflow(first: Checkout, second: Checkout): Promise<void> {
  await using fleet = await Fleet.open()
  await fleet.start(first)
  const model = await makeModel(fleet, 'model', 3)
  const { dataset_id: table } = await uploadTable(fleet.api, regressionTable(ROWS))
  const asked = [...(await queue(fleet, model, 8))]
  const direct = burst(fleet, model, 2)
  const runs: string[] = []
  for (let i = 0; i < RUNS; i++) runs.push(await startRun(fleet, table))
  await eventually(
    'the first run',
    async () => ((await readRun(fleet, runs[0]!)).metrics?.epochs?.length ?? 0) > 0 || undefined,
  )

  await fleet.start(second)
  assert.ok(fleet.runs(first, 'api') && fleet.runs(second, 'api'))
  asked.push(...(await queue(fleet, model, 8)))
  // Both versions carry requests, report states and poll for a while.
  await sleep(4_000)
  const open = await Promise.all(runs.map(async (run) => (await readRun(fleet, run)).status !== 'completed'))
  assert.ok(open.includes(true), 'all runs ended before the change')
  await fleet.stop(first)
  const changedAt = Date.now()
  asked.push(...(await queue(fleet, model, 8)))
  const untouched = await makeModel(fleet, 'afterwards', 4)
  asked.push(...(await queue(fleet, untouched, 2)))
  await direct.end()

  const ends = await endings(fleet, [...asked, ...direct.accepted])
  for (const { taskId } of asked) assert.equal(ends.get(taskId), 'succeeded', fleet.errors().join('\n'))
  for (const { taskId, told } of direct.accepted) if (told) assert.equal(ends.get(taskId), told)
  for (const { taskId } of [...asked, ...direct.accepted]) await checkBooks(fleet, taskId)
  assert.ok(direct.accepted.length > 0)
  for (const run of runs) {
    const hasCompleted = async () => {
      const { status, error_message: reason } = await readRun(fleet, run)
      assert.ok(['pending', 'running', 'completed'].includes(status), `${status}: ${reason}`)
      return status === 'completed' || undefined
    }
    await eventually('the end of a run', hasCompleted, 240_000)
  }
  await assertOneEventEach(fleet)
  const last = `job/${runs.at(-1)}`
  await assertGoneOn(fleet, [last, 'housekeeping/reconcile'], changedAt)
}

const readRun = ({ api }: Fleet, run: string) => api.get<Run>(`/training/runs/${run}`)

async function queue(fleet: Fleet, model: Model, count: number) {
  const taken = await Promise.all(Array.from({ length: count }, () => ask(fleet, model)))
  assert.ok(
    taken.every((one) => one !== undefined),
    `a request was not taken:\n${fleet.errors().join('\n')}`,
  )
  return taken.filter((one) => one !== undefined)
}

/** Every task and run that has ended has one event. */
async function assertOneEventEach({ database: { db } }: Fleet): Promise<void> {
  const { rows } = await sql<{ missing: number }>`
    select count(*)::int as missing from task
    where status in ('succeeded', 'failed')
      and (select count(*) from event where event.resource_id = task.id) <> 1`.execute(db)
  assert.deepEqual(rows, [{ missing: 0 }])
}

/** Workflows that processes of both versions worked on have gone on after the change, and no worker has refused a history. */
async function assertGoneOn(
  { temporal }: Fleet,
  workflowIds: readonly string[],
  changedAt: number,
): Promise<void> {
  for (const workflowId of workflowIds) {
    const handle = temporal.client.workflow.getHandle(workflowId)
    await eventually(`a step of ${workflowId} after the change`, async () => {
      const events = (await handle.fetchHistory()).events ?? []
      const failures = events.flatMap(
        ({ workflowTaskFailedEventAttributes: failed }) => failed?.failure?.message ?? [],
      )
      assert.deepEqual(failures, [], workflowId)
      return (
        events.some(
          ({ eventTime, workflowTaskCompletedEventAttributes: done }) =>
            done && Number(eventTime?.seconds) * 1000 > changedAt,
        ) || undefined
      )
    })
  }
}
