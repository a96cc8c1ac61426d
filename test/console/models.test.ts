import assert from 'node:assert/strict'
import { addLlmVersion } from '../support/builders/models/merges.ts'
import { createRun, readyDataset } from '../support/builders/training.ts'
import { ConsoleWorld } from '../support/servers/worlds/console-world.ts'

describe('models in the console', function () {
  this.timeout(60_000)
  let on: ConsoleWorld
  before(async function () {
    on = await ConsoleWorld.start(this)
  })
  after(() => on?.[Symbol.asyncDispose]())

  /** Creates a run that produced a version. */
  async function madeVersion(name: string): Promise<{ jobId: string; versionId: string }> {
    const dataset = await readyDataset(on.api, on.caller.accountId)
    const jobId = await createRun(on.api, on.caller.key, { dataset_id: dataset, job_name: name })
    await on.api.database.db
      .updateTable('training_run')
      .set({ status: 'completed', started_at: new Date(), completed_at: new Date() })
      .where('id', '=', jobId)
      .execute()
    const made = { model: {}, job_id: jobId, dataset_id: dataset }
    const versionId = await addLlmVersion(on.api, on.caller.accountId, made)
    return { jobId, versionId }
  }
  async function registered(name: string): Promise<{ modelId: string; versionId: string }> {
    const { versionId } = await madeVersion(name)
    const body = { name, version_id: versionId }
    const answer = await on.api.call('POST', '/api/builder/v1/models', { key: on.caller.key, body })
    assert.equal(answer.status, 201, answer.text)
    return { modelId: answer.body.model_id, versionId }
  }

  it('registers the result of a run, and navigates its lineage by keyboard', async () => {
    const { jobId } = await madeVersion('walked')
    await using tab = await on.open(`/runs/${jobId}`)
    await tab.page.getByRole('button', { name: 'Register' }).click()
    await tab.page.getByRole('heading', { name: 'walked', level: 1 }).waitFor()
    const step = tab.page.getByRole('group', { name: 'The selected item' })
    await step.getByText(/^version: llm/).waitFor()

    await step.getByRole('button', { name: /^produced: walked/ }).press('Enter')
    await step.getByText('job: walked').waitFor()
    await step.getByRole('button', { name: /^trained on: table/ }).press('Enter')
    await step.getByText('dataset: table').waitFor()

    await tab.picture('model-light')
    assert.deepEqual(await tab.barriers(), [])
    await step.getByRole('link', { name: 'Open the dataset' }).click()
    await tab.page.getByRole('heading', { name: 'table', level: 1 }).waitFor()
    assert.deepEqual(tab.faults, [])
  })

  it('lists the columns that a version did not learn from', async () => {
    const { jobId, versionId } = await madeVersion('picky')
    const left_out_columns = [{ column: 'id', reason: 'it is text with 60 different values' }]
    await on.api.database.db
      .updateTable('training_run')
      .set({ metrics: JSON.stringify({ mae: 2, left_out_columns }) })
      .where('id', '=', jobId)
      .execute()
    const body = { name: 'picky', version_id: versionId }
    const made = await on.api.call('POST', '/api/builder/v1/models', { key: on.caller.key, body })
    await using tab = await on.open(`/models/${made.body.model_id}`)
    const step = tab.page.getByRole('group', { name: 'The selected item' })

    await step.getByText('The model did not learn from this column of the table:').waitFor()

    const named = step.getByRole('list', { name: 'Columns left out' }).getByRole('listitem')
    assert.deepEqual(await named.allTextContents(), ['id: it is text with 60 different values'])
    assert.equal(await step.getByText('left out columns').count(), 0)
    assert.deepEqual(await tab.barriers(), [])
    assert.deepEqual(tab.faults, [])
  })

  it('serves a version from its page, and lists the endpoint among its uses', async () => {
    const { modelId } = await registered('Served one')
    await using tab = await on.open(`/models/${modelId}`)
    await tab.page.getByLabel(/^Name of the endpoint/).fill('Not a name')
    await tab.page.getByRole('button', { name: 'Serve', exact: true }).click()
    const alert = tab.page.getByRole('alert')
    await alert.getByText('The model was not served').waitFor()
    assert.match((await alert.textContent()) ?? '', /servedname: /)

    await tab.page.getByLabel(/^Name of the endpoint/).fill('served-one')
    await tab.page.getByRole('button', { name: 'Serve', exact: true }).click()
    await tab.page.getByRole('heading', { name: 'served-one', level: 1 }).waitFor()

    await tab.page.goto(`/console/models/${modelId}`)
    const step = tab.page.getByRole('group', { name: 'The selected item' })
    await step.getByText(/^version: llm/).waitFor()
    await step.getByRole('button', { name: 'served as: served-one' }).click()
    await tab.picture('model-served')
    assert.deepEqual(await tab.barriers(), [])
    await step.getByRole('link', { name: 'Open the endpoint' }).click()
    await tab.page.getByRole('heading', { name: 'served-one', level: 1 }).waitFor()
    assert.deepEqual(tab.faults, [])
  })

  it('merges models with a form', async () => {
    const names = ['first part', 'second part']
    for (const name of names) await registered(name)
    await using tab = await on.open('/models')
    await tab.page.getByRole('tab', { name: 'Merge' }).click()
    await tab.page.getByLabel(/^Name/).fill('both')
    await tab.page.getByRole('combobox', { name: 'Models' }).click()
    for (const name of names) await tab.page.getByRole('option', { name: new RegExp(`^${name}`) }).click()
    await tab.page.getByLabel(/^Weights/).fill('0.5')
    await tab.page.getByText('Enter one number for each model.').waitFor()
    assert.ok(await tab.page.getByRole('button', { name: 'Merge', exact: true }).isDisabled())

    await tab.page.getByLabel(/^Weights/).fill('0.5, 0.5')
    await tab.picture('merge-light')
    assert.deepEqual(await tab.barriers(), [])
    await tab.page.getByRole('button', { name: 'Merge', exact: true }).click()

    await tab.page.getByRole('heading', { name: 'both', level: 1 }).waitFor()
    assert.deepEqual(tab.faults, [])
  })

  it('disables a model with a reason, and sends it back to testing', async () => {
    await using tab = await on.open('/models')
    await tab.page.getByRole('tab', { name: 'Registry' }).click()
    const row = tab.page.getByRole('row', { name: /tabular-regression/ }).first()
    await row.getByRole('button', { name: /^Disable/ }).click()
    await tab.page.getByLabel(/^Reason/).fill('too old for us')
    assert.deepEqual(await tab.barriers(), [])
    await tab.page.getByRole('button', { name: 'Disable', exact: true }).click()
    await row.getByText('too old for us').waitFor()

    await row.getByRole('button', { name: /^Test again/ }).click()

    await row.getByText('Candidate: not tested yet').waitFor()
    await tab.picture('registry-light')
    assert.deepEqual(tab.faults, [])
  })

  it('hides from viewers every button whose request would be rejected', async () => {
    const { modelId } = await registered('seen')
    const key = await on.api.key(on.caller.accountId, 'viewer')
    await using tab = await on.open(`/models/${modelId}`, key)
    await tab.page.getByRole('cell', { name: 'private' }).waitFor()
    assert.equal(await tab.page.getByRole('button', { name: /^(?:Make |Serve)/ }).count(), 0)

    await tab.page.goto('/console/models')
    await tab.page.getByRole('tab', { name: 'Registry' }).click()
    await tab.page
      .getByRole('row', { name: /tabular-regression/ })
      .first()
      .waitFor()

    assert.equal(await tab.page.getByRole('tab', { name: 'Merge' }).count(), 0)
    assert.equal(await tab.page.getByRole('button', { name: /^Disable/ }).count(), 0)
    assert.deepEqual(tab.faults, [])
  })
})
