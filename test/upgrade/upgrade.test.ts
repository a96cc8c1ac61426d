import assert from 'node:assert/strict'
import { sql } from 'kysely'
import { ask, burst, checkBooks, endings, type Model, makeModel, startRun } from '../faults/work.ts'
import { eventually } from '../support/assertions/until.ts'
import { wideTable } from '../support/builders/tables.ts'
import { uploadTable } from '../support/servers/clients/builder-client.ts'
import { skipBecause } from '../support/skip.ts'
import { type Checkout, checkOutRelease, makeLaterVersion, RELEASES } from './checkouts.ts'
import { Fleet } from './fleet.ts'

/** The ledger of every request is checked, and requests continue for as long as a version takes to start. */
const BURST_PAUSE_MS = 200
const [ROWS, COLUMNS] = [2_000, 60]
/** A run with this many epochs outlasts the switch between versions on any machine. */
const EPOCHS_WITHOUT_END = 20_000
/** Kept short, because the long run may wait for the node that this run occupies. */
const SHORT_EPOCHS = 100

interface Run {
  status: string
  error_message: string | null
  metrics: { epochs?: { epoch: number }[] } | null
}

for (const release of RELEASES) {
  describe(`${release.tag} and a later version on one database`, function () {
    this.timeout(900_000)
    let older: Checkout
    let later: Checkout
    let fleet: Fleet
    before(async function () {
      try {
        older = await checkOutRelease(release)
      } catch (err) {
        if (!String(err).includes('git')) throw err
        return skipBecause(this, `this clone does not hold the commit ${release.commit}`)
      }
      later = await makeLaterVersion()
      fleet = await Fleet.open()
    })
    after(async () => {
      await fleet?.[Symbol.asyncDispose]()
      older?.[Symbol.dispose]()
      later?.[Symbol.dispose]()
    })

    it('hand over all work when the later version replaces the older one', () =>
      moveWork(fleet, older, later))

    it('hand over all work when the older version returns, with the later migration in place', () =>
      moveWork(fleet, later, older))
  })
}

/** Starts one version's processes alongside the other's, then stops the other's, while work continues. */
async function moveWork(fleet: Fleet, first: Checkout, second: Checkout): Promise<void> {
  if (!fleet.runs(first, 'api')) await fleet.start(first)
  const model = await makeModel(fleet, 'model', 3)
  const { dataset_id: table } = await uploadTable(fleet.api, wideTable(ROWS, COLUMNS))
  const queuedTasks = [...(await queue(fleet, model, 8))]
  const direct = burst(fleet, model, 2, BURST_PAUSE_MS)
  const long = await startRun(fleet, table, EPOCHS_WITHOUT_END)
  // A node trains one run at a time, so this run is either waiting or running at the change.
  const short = await startRun(fleet, table, SHORT_EPOCHS)
  await trainsBeyond(fleet, long, 0)

  await fleet.start(second)
  assert.ok(fleet.runs(first, 'api') && fleet.runs(second, 'api'))
  queuedTasks.push(...(await queue(fleet, model, 8)))
  // Both versions serve requests, report states and poll for a while.
  await accepts(direct, 10)
  await trainsBeyond(fleet, long, lastEpoch(await readRun(fleet, long)))
  await fleet.stop(first)
  const changedAt = Date.now()
  const epochAtChange = lastEpoch(await readRun(fleet, long))
  queuedTasks.push(...(await queue(fleet, model, 8)))
  await accepts(direct, 4)
  await direct.end()
  await trainsBeyond(fleet, long, epochAtChange)
  await fleet.api.post(`/training/runs/${long}/cancel`, {})
  await eventually(
    'the cancelled run',
    async () => (await readRun(fleet, long)).status === 'cancelled' || undefined,
  )
  const untouched = await makeModel(fleet, 'afterwards', 4)
  queuedTasks.push(...(await queue(fleet, untouched, 2)))

  const ends = await endings(fleet, [...queuedTasks, ...direct.accepted])
  for (const { taskId } of queuedTasks) assert.equal(ends.get(taskId), 'succeeded', fleet.errors().join('\n'))
  for (const { taskId, reported } of direct.accepted) if (reported) assert.equal(ends.get(taskId), reported)
  for (const { taskId } of [...queuedTasks, ...direct.accepted]) await checkBooks(fleet, taskId)
  assert.ok(direct.accepted.length > 0)
  const hasCompleted = async () => {
    const { status, error_message: reason } = await readRun(fleet, short)
    assert.ok(['pending', 'running', 'completed'].includes(status), `${status}: ${reason}`)
    return status === 'completed' || undefined
  }
  await eventually('the end of a run', hasCompleted, 240_000)
  await assertOneEventEach(fleet)
  await assertGoneOn(fleet, [`job/${long}`, 'housekeeping/reconcile'], changedAt)
}

const readRun = ({ api }: Fleet, run: string) => api.get<Run>(`/training/runs/${run}`)
const lastEpoch = ({ metrics }: Run) => metrics?.epochs?.at(-1)?.epoch ?? 0

/** Waits until a run reports an epoch after the given one. */
async function trainsBeyond(fleet: Fleet, run: string, epoch: number): Promise<void> {
  const isBeyond = async () => {
    const now = await readRun(fleet, run)
    assert.ok(['pending', 'running'].includes(now.status), `${now.status}: ${now.error_message}`)
    return lastEpoch(now) > epoch || undefined
  }
  await eventually(`an epoch of the run after ${epoch}`, isBeyond, 240_000)
}

/** Waits until the platform has accepted this many further direct requests. */
async function accepts({ accepted }: ReturnType<typeof burst>, count: number): Promise<void> {
  const enough = accepted.length + count
  await eventually('direct requests', () => accepted.length >= enough || undefined)
}

async function queue(fleet: Fleet, model: Model, count: number) {
  const taken = await Promise.all(Array.from({ length: count }, () => ask(fleet, model)))
  assert.ok(
    taken.every((one) => one !== undefined),
    `a request was not accepted:\n${fleet.errors().join('\n')}`,
  )
  return taken.filter((one) => one !== undefined)
}

/** Asserts that every ended task and run has exactly one event. */
async function assertOneEventEach({ database: { db } }: Fleet): Promise<void> {
  const { rows } = await sql<{ missing: number }>`
    select count(*)::int as missing from task
    where status in ('succeeded', 'failed')
      and (select count(*) from event where event.resource_id = task.id) <> 1`.execute(db)
  assert.deepEqual(rows, [{ missing: 0 }])
}

/** Asserts that workflows of both versions continued after the change, and that no worker rejected a history. */
async function assertGoneOn(
  { temporal }: Fleet,
  workflowIds: readonly string[],
  changedAt: number,
): Promise<void> {
  for (const workflowId of workflowIds) {
    const handle = temporal.client.workflow.getHandle(workflowId)
    await eventually(`a step of ${workflowId} after the change`, async () => {
      const events = (await handle.fetchHistory()).events ?? []
      const failures = events
        .flatMap(({ workflowTaskFailedEventAttributes: failed }) => failed?.failure?.message ?? [])
        // A signal arrived while the worker completed the workflow: the server has it decide again.
        .filter((message) => message !== 'UnhandledCommand')
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
