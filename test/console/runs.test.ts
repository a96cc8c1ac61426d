import assert from 'node:assert/strict'
import { newId } from '../../domain/ids.ts'
import { createRun, readyDataset } from '../support/builders/training.ts'
import { ConsoleTab } from '../support/servers/clients/browser.ts'
import { ConsoleWorld } from '../support/servers/worlds/console-world.ts'

describe('runs in the console', function () {
  this.timeout(60_000)
  let on: ConsoleWorld
  let caller: { accountId: string; key: string }
  let dataset: string

  before(async function () {
    on = await ConsoleWorld.start(this)
  })
  beforeEach(async () => {
    caller = await on.api.account()
    dataset = await readyDataset(on.api, caller.accountId)
  })
  after(() => on?.[Symbol.asyncDispose]())

  /** Writes what a node reports during training. */
  async function epoch(jobId: string, at: number): Promise<void> {
    const { db } = on.api.database
    const losses = { train_loss: 1 / (at + 1), val_loss: 1.2 / (at + 1) }
    await db
      .insertInto('job_epoch')
      .values({ job_id: jobId, attempt: 1, epoch: at, ...losses })
      .execute()
    const message = `epoch ${at} has ended`
    await db
      .insertInto('job_log')
      .values({ job_id: jobId, attempt: 1, seq: at, message, created_at: new Date() })
      .execute()
  }
  const begin = (jobId: string) =>
    on.api.database.db
      .updateTable('training_run')
      .set({ status: 'running', started_at: new Date() })
      .where('id', '=', jobId)
      .execute()

  it('asks for a key, rejects an unknown one, and stores a valid one for the tab', async () => {
    await using tab = await ConsoleTab.open(on.browser, on.api.baseUrl)
    const { page } = tab
    await page.goto('/console/')
    await page.getByLabel(/^API key/).fill('hk_unknown')
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByText('This key is unknown or revoked.').waitFor()
    assert.deepEqual(await tab.barriers(), [])
    await tab.picture('sign-in')

    await page.getByLabel(/^API key/).fill(caller.key)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { name: 'Overview' }).waitFor()
    await page.reload()
    await page.getByRole('heading', { name: 'Overview' }).waitFor()

    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('button', { name: 'Sign in' }).waitFor()
    assert.deepEqual(tab.faults, [])
  })

  it('reads the key from a link and removes it from the URL', async () => {
    await using tab = await on.open('/runs', caller.key)

    await tab.page.getByRole('heading', { name: 'Runs' }).waitFor()

    assert.equal(tab.page.url(), `${on.api.baseUrl}/console/runs`)
    assert.equal((await tab.context.storageState()).origins.length, 0)
    assert.deepEqual(tab.faults, [])
  })

  it('lists runs, including one that is created while the list is open', async () => {
    await createRun(on.api, caller.key, { dataset_id: dataset, job_name: 'earlier' })
    await using tab = await on.open('/runs', caller.key)
    await tab.page.getByRole('link', { name: 'earlier' }).waitFor()

    await createRun(on.api, caller.key, { dataset_id: dataset, job_name: 'later' })

    await tab.page.getByRole('link', { name: 'later' }).waitFor()
    assert.deepEqual(tab.faults, [])
  })

  it('updates the curves and the log of a running run', async () => {
    const jobId = await createRun(on.api, caller.key, { dataset_id: dataset, job_name: 'moving' })
    await begin(jobId)
    await epoch(jobId, 0)
    await epoch(jobId, 1)
    await using tab = await on.open(`/runs/${jobId}`, caller.key)
    await tab.page.locator('[data-points="2"] canvas').waitFor()
    await tab.page.getByText('epoch 1 has ended').waitFor()

    for (const at of [2, 3, 4]) await epoch(jobId, at)

    await tab.page.locator('[data-points="5"] canvas').waitFor()
    await tab.page.getByText('epoch 4 has ended').waitFor()
    assert.deepEqual(await tab.barriers(), [])
    assert.deepEqual(tab.faults, [])
  })

  it('compares runs', async () => {
    const ids = []
    for (const name of ['left', 'right']) {
      const jobId = await createRun(on.api, caller.key, { dataset_id: dataset, job_name: name })
      for (const at of [0, 1, 2]) await epoch(jobId, at)
      ids.push(jobId)
    }
    await using tab = await on.open('/runs', caller.key)
    for (const name of ['left', 'right']) await tab.page.getByLabel(`Compare ${name}`).check()
    await tab.page.getByRole('button', { name: 'Compare 2' }).click()

    await tab.page.locator('[data-points="3"] canvas').waitFor()
    assert.deepEqual(await tab.barriers(), [])
    assert.deepEqual(tab.faults, [])
    await tab.picture('compare-light')
  })

  it("shows an ended run's data that arrived after its end", async () => {
    const jobId = await createRun(on.api, caller.key, { dataset_id: dataset, job_name: 'hasty' })
    await begin(jobId)
    await epoch(jobId, 0)
    await using tab = await on.open(`/runs/${jobId}`, caller.key)
    await tab.page.locator('[data-points="1"] canvas').waitFor()

    const epochs = [0, 1, 2, 3, 4, 5].map((at) => ({ epoch: at, train_loss: 1, val_loss: 1 }))
    await on.api.database.db
      .updateTable('training_run')
      .set({ status: 'completed', completed_at: new Date(), metrics: JSON.stringify({ mae: 2, epochs }) })
      .where('id', '=', jobId)
      .execute()
    await tab.page.locator('[data-points="6"] canvas').waitFor()
    await epoch(jobId, 6)

    await tab.page.locator('[data-points="7"] canvas').waitFor()
    await tab.page.getByText('epoch 6 has ended').waitFor()
    assert.equal(await tab.page.getByRole('list', { name: 'Columns left out' }).count(), 0)
    assert.deepEqual(tab.faults, [])
  })

  it('shows the columns that a run left out, with the reasons, and its data warnings', async () => {
    const jobId = await createRun(on.api, caller.key, { dataset_id: dataset, job_name: 'picky' })
    const left_out_columns = [
      { column: 'id', reason: 'it is text with 60 different values' },
      { column: '', reason: 'it has no values' },
    ]
    const warnings = [{ message: '14 rows repeat a time.', count: 14, row: 3 }]
    const metrics = JSON.stringify({ mae: 2, left_out_columns, warnings, epochs: [] })
    await on.api.database.db
      .updateTable('training_run')
      .set({ status: 'completed', completed_at: new Date(), metrics })
      .where('id', '=', jobId)
      .execute()
    await using tab = await on.open(`/runs/${jobId}`, caller.key)
    const named = tab.page.getByRole('list', { name: 'Columns left out' }).getByRole('listitem')
    await named.first().waitFor()

    assert.deepEqual(await named.allTextContents(), [
      'id: it is text with 60 different values',
      '(no name): it has no values',
    ])
    const warned = tab.page.getByRole('list', { name: 'Warnings about the data' }).getByRole('listitem')
    assert.deepEqual(await warned.allTextContents(), ['14 rows repeat a time.'])
    assert.equal(await tab.page.getByRole('row', { name: /left out/i }).count(), 0)
    assert.deepEqual(await tab.barriers(), [])
    assert.deepEqual(tab.faults, [])
  })

  it('updates the age of an ended run while its page is open', async () => {
    const jobId = await createRun(on.api, caller.key, { dataset_id: dataset, job_name: 'old' })
    await on.api.database.db
      .updateTable('training_run')
      .set({ status: 'cancelled', completed_at: new Date() })
      .where('id', '=', jobId)
      .execute()
    await using tab = await on.open('/', caller.key)
    await tab.page.clock.install()
    await tab.page.goto(`/console/runs/${jobId}`)
    const created = tab.page.getByRole('row', { name: /^Created/ })
    await created.getByText(/second|now/).waitFor()

    await tab.page.clock.fastForward('31:00')

    await created.getByText('31 minutes ago').waitFor()
    assert.deepEqual(tab.faults, [])
  })

  it('reruns a run under a new name, and shows nothing from the original', async () => {
    const { db } = on.api.database
    const jobId = await createRun(on.api, caller.key, { dataset_id: dataset, job_name: 'houses' })
    await db
      .insertInto('job_event')
      .values({
        id: newId(),
        job_id: jobId,
        event_type: 'failed',
        dedupe: 'failed',
        detail: 'of the earlier one',
      })
      .execute()
    await epoch(jobId, 0)
    await db.updateTable('training_run').set({ status: 'failed' }).where('id', '=', jobId).execute()
    await using tab = await on.open(`/runs/${jobId}`, caller.key)
    const events = tab.page.getByRole('table', { name: 'events' })
    await events.getByText('of the earlier one').waitFor()

    await tab.page.getByRole('button', { name: 'Run again' }).click()
    await tab.page.getByLabel('epochs', { exact: true }).fill('7')
    await tab.page.getByRole('button', { name: 'Start the run' }).click()
    await tab.page.getByRole('heading', { name: 'houses 2', level: 1 }).waitFor()

    await events.getByText('queued').waitFor()
    assert.equal(await events.getByText('of the earlier one').count(), 0)
    assert.equal(await tab.page.locator('canvas').count(), 0)
    const { body } = await on.api.call('GET', '/api/builder/v1/training/runs', { key: caller.key })
    assert.equal(body.runs[0].hyperparameters.epochs, 7)
    assert.deepEqual(await tab.barriers(), [])
    assert.deepEqual(tab.faults, [])
  })

  it('cancels a run', async () => {
    const jobId = await createRun(on.api, caller.key, { dataset_id: dataset, job_name: 'unwanted' })
    await using tab = await on.open(`/runs/${jobId}`, caller.key)

    await tab.page.getByRole('button', { name: 'Cancel' }).click()
    await tab.page.getByRole('button', { name: 'Cancel the run' }).click()

    await tab.page.getByText('Cancelled').first().waitFor()
    assert.deepEqual(tab.faults, [])
  })
})
