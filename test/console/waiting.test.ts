import assert from 'node:assert/strict'
import { buildHeldTask, buildRun } from '../support/builders/build-endpoint.ts'
import { buildCohort, buildEdge, buildStage } from '../support/builders/cohorts/cohorts.ts'
import type { ConsoleTab } from '../support/servers/clients/browser.ts'
import { ConsoleWorld } from '../support/servers/worlds/console-world.ts'

describe('waiting and failed work in the console', function () {
  this.timeout(60_000)
  let on: ConsoleWorld
  before(async function () {
    on = await ConsoleWorld.start(this)
  })
  after(() => on?.[Symbol.asyncDispose]())

  const note = ({ page }: ConsoleTab, title: string) => page.getByRole('note').filter({ hasText: title })

  it('shows that webhooks are off, and who can enable them', async () => {
    await using tab = await on.open('/webhooks')
    await note(tab, 'Webhooks are off').getByText('An operator can enable webhooks').waitFor()

    assert.deepEqual(tab.faults, [])
  })

  it('shows why a run is waiting, and that a paused run continues when it is resumed', async () => {
    const { db } = on.api.database
    const waiting_reason = 'there is no node with a GPU that works for this account'
    const waiting = { status: 'pending', waiting_reason, waiting_since: new Date() } as const
    const { id } = await buildRun(db, on.caller.accountId, waiting)
    await using tab = await on.open(`/runs/${id}`)
    await note(tab, 'Waiting').getByText(waiting_reason).waitFor()

    await tab.page.getByRole('button', { name: 'Pause' }).click()
    await note(tab, 'Paused').getByText('once it is resumed').waitFor()
    await tab.page.getByRole('button', { name: 'Resume' }).waitFor()

    assert.deepEqual(await tab.barriers(), [])
    assert.deepEqual(tab.faults, [])
  })

  it('explains the states in a list once, below the list, accessible to every reader', async () => {
    const { db } = on.api.database
    const failed = { status: 'failed', error: 'instances: age is missing', completed_at: new Date() } as const
    for (let i = 0; i < 2; i++) await buildHeldTask(db, on.caller.accountId, failed)
    await using tab = await on.open('/tasks')

    const legend = tab.page.getByLabel('What the states mean')
    await legend.getByText('Its price was refunded').waitFor()
    assert.equal(await legend.getByText('Failed').count(), 1)
    assert.equal(await legend.getByText('Succeeded').count(), 0)
    assert.deepEqual(await tab.barriers(), [])
  })

  it('shows why a task failed, and that its price is refunded', async () => {
    const failed = { status: 'failed', error: 'instances: age is missing', completed_at: new Date() } as const
    const id = await buildHeldTask(on.api.database.db, on.caller.accountId, failed)
    await using tab = await on.open(`/tasks/${id}`)

    await note(tab, 'Failed').getByText('instances: age is missing').waitFor()
    await note(tab, 'Failed').getByText('Its price was refunded').waitFor()
    assert.deepEqual(tab.faults, [])
  })

  it('shows the stages and hand-overs of a running cohort', async () => {
    const { db } = on.api.database
    const request = JSON.stringify({ outputs: [] })
    const cohort = await buildCohort(db, on.caller.accountId, { name: 'read and answer', request })
    await db.updateTable('task').set({ surface: 'cohort' }).where('id', '=', cohort.task_id).execute()
    const reader = await buildStage(db, cohort, { name: 'reader', status: 'running', attempt: 2 })
    const writer = await buildStage(db, cohort, { name: 'writer', position: 1 })
    await buildEdge(db, [reader, writer], { kind: 'embedding', state: 'connecting' })
    await using tab = await on.open(`/tasks/${cohort.task_id}`)
    const stages = tab.page.getByRole('table', { name: 'stages' })
    await stages.getByRole('row', { name: /^reader Running .* 2 / }).waitFor()
    await stages.getByRole('row', { name: /^writer Waiting for its inputs/ }).waitFor()
    const handOvers = tab.page.getByRole('table', { name: 'hand-overs' })
    await handOvers.getByRole('row', { name: /^reader → writer Connecting embedding/ }).waitFor()
    await tab.picture('cohort-light')
    assert.deepEqual(await tab.barriers(), [])

    const error = JSON.stringify({ code: 'node_lost', message: 'its node is gone' })
    await db
      .updateTable('cohort_stage')
      .set({ status: 'failed', error })
      .where('id', '=', reader.id)
      .execute()
    await stages.getByRole('row', { name: /^reader Failed ?its node is gone/ }).waitFor()
    assert.deepEqual(tab.faults, [])
  })
})
