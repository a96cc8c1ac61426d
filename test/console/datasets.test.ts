import assert from 'node:assert/strict'
import type { Browser } from 'playwright-core'
import { openSignedIn } from '../support/builders/console.ts'
import { readyDataset } from '../support/builders/training.ts'
import { requireBrowser, requireConsole } from '../support/servers/clients/browser.ts'
import { CSV, DatasetApi } from '../support/servers/dataset-api.ts'

describe('datasets in the console', function () {
  this.timeout(60_000)
  let browser: Browser
  let on: DatasetApi
  before(async function () {
    await requireConsole(this)
    browser = await requireBrowser(this)
    on = await DatasetApi.start()
  })
  after(async () => {
    await browser?.close()
    await on?.[Symbol.asyncDispose]()
  })

  it('are uploaded, and show their first rows and a summary of their columns', async () => {
    await using tab = await openSignedIn(browser, on.api, '/datasets', on.key)
    const file = { name: 'people.csv', mimeType: 'text/csv', buffer: Buffer.from(CSV) }
    const chooser = tab.page.waitForEvent('filechooser')
    await tab.page.getByRole('button', { name: 'File' }).click()
    await (await chooser).setFiles(file)
    assert.equal(await tab.page.getByLabel(/^Name/).inputValue(), 'people')
    await tab.page.getByRole('button', { name: 'Upload' }).click()
    await tab.page.getByRole('heading', { name: 'people', level: 1 }).waitFor()

    const rows = tab.page.getByRole('table', { name: 'first rows' })
    await rows.getByRole('row', { name: /31 Ada/ }).waitFor()
    const columns = tab.page.getByRole('table', { name: 'columns' })
    await columns.getByRole('row', { name: /^age integer 0 2 31 38 45/ }).waitFor()

    await tab.picture('dataset-rows-light')
    assert.deepEqual(await tab.barriers(), [])
    assert.deepEqual(tab.faults, [])
  })

  it('offer their columns as the column to predict in the training form', async () => {
    const id = await readyDataset(on.api, on.accountId, { columns: ['age', 'income', 'price'] })
    await using tab = await openSignedIn(browser, on.api, `/datasets/${id}`, on.key)
    await tab.page.getByRole('combobox', { name: /^What to train/ }).click()
    await tab.page.getByRole('option', { name: 'Tabular regression' }).click()
    await tab.page.getByRole('combobox', { name: 'Column to predict' }).click()
    await tab.page.getByRole('option', { name: 'income' }).click()
    await tab.page.getByRole('button', { name: 'Settings' }).click()
    await tab.page.getByLabel('epochs', { exact: true }).fill('10000000')
    await tab.page.getByLabel('epochs', { exact: true }).blur()
    await tab.page.getByRole('alert').getByText('epochs must be at most 100000', { exact: true }).waitFor()
    assert.ok(await tab.page.getByRole('button', { name: 'Train', exact: true }).isDisabled())
    assert.equal(await tab.page.getByText('From 1 to 100,000.').first().isVisible(), true)
    await tab.page.getByLabel('epochs', { exact: true }).fill('7')
    assert.deepEqual(await tab.barriers(), [])
    await tab.page.getByRole('button', { name: 'Train', exact: true }).click()
    await tab.page.getByLabel('hyperparameters', { exact: true }).waitFor()

    const { body } = await on.api.call('GET', '/api/builder/v1/training/runs', { key: on.key })
    const { target_column, epochs } = body.runs[0].hyperparameters
    assert.deepEqual([target_column, epochs], ['income', 7])
    assert.deepEqual(tab.faults, [])
  })

  it('warn before the upload about a name that is in use, and can be deleted if they have failed', async () => {
    const failed = await readyDataset(on.api, on.accountId, { status: 'failed' })
    await readyDataset(on.api, on.accountId)
    await using tab = await openSignedIn(browser, on.api, '/datasets', on.key)
    const chooser = tab.page.waitForEvent('filechooser')
    await tab.page.getByRole('button', { name: 'File' }).click()
    await (
      await chooser
    ).setFiles({ name: 'table.csv', mimeType: 'text/csv', buffer: Buffer.from('a,b\n1,2\n') })
    await tab.page.getByText('A dataset named table already exists.').waitFor()

    await tab.page.getByRole('button', { name: 'Delete table' }).click()
    await tab.page.getByRole('button', { name: 'Delete table permanently' }).click()
    await tab.page.getByRole('button', { name: 'Delete table permanently' }).waitFor({ state: 'detached' })

    const { status } = await on.api.call('GET', `/api/builder/v1/datasets/${failed}`, { key: on.key })
    assert.equal(status, 404)
    assert.deepEqual(await tab.barriers(), [])
    assert.deepEqual(tab.faults, [])
  })

  it("show the gateway's message when they cannot be read", async () => {
    await using tab = await openSignedIn(browser, on.api, '/datasets', on.key)
    const chooser = tab.page.waitForEvent('filechooser')
    await tab.page.getByRole('button', { name: 'File' }).click()
    await (
      await chooser
    ).setFiles({ name: 'broken.parquet', mimeType: 'x/y', buffer: Buffer.from('no parquet') })
    await tab.page.getByRole('button', { name: 'Upload' }).click()

    await tab.page.getByText('The upload failed').waitFor()
    assert.match((await tab.page.getByRole('alert').textContent()) ?? '', /parquet/i)
  })
})
