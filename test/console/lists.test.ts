import assert from 'node:assert/strict'
import type { Locator } from 'playwright-core'
import { until } from '../support/assertions/until.ts'
import { buildEndpoint } from '../support/builders/build-endpoint.ts'
import { createRun, readyDataset } from '../support/builders/training.ts'
import type { ConsoleTab } from '../support/servers/clients/browser.ts'
import { ConsoleWorld } from '../support/servers/worlds/console-world.ts'

const LINES = 1_200

const backgroundOf = (element: Locator): Promise<string> =>
  element.evaluate((styled) => {
    const { getComputedStyle } = globalThis as unknown as {
      getComputedStyle: (of: unknown) => { backgroundColor: string }
    }
    return getComputedStyle(styled).backgroundColor
  })

describe('long lists in the console', function () {
  this.timeout(120_000)
  let on: ConsoleWorld
  before(async function () {
    on = await ConsoleWorld.start(this)
  })
  after(() => on?.[Symbol.asyncDispose]())

  const firstName = ({ page }: ConsoleTab): Promise<string | null> =>
    page.locator('tbody tr').first().getByRole('link').textContent()

  it('of endpoints are sorted, filtered and paged by the gateway', async () => {
    for (let n = 0; n < 60; n++) {
      const name = `listed-${String(n).padStart(2, '0')}`
      const task_type = n % 20 === 7 ? 'embeddings' : 'regression'
      await buildEndpoint(on.api.database.db, on.caller.accountId, { name, task_type, visibility: 'account' })
    }
    await using tab = await on.open('/endpoints')
    await tab.page.getByLabel('Search endpoints').fill('listed')
    await tab.page.getByText('1 to 50 of 60').waitFor()

    await tab.page.getByRole('button', { name: 'Name' }).click()
    await until(async () => (await firstName(tab)) === 'listed-00')
    await tab.page.getByRole('button', { name: 'On' }).click()
    await tab.page.getByText('51 to 60 of 60').waitFor()
    await until(async () => (await firstName(tab)) === 'listed-50')
    await tab.page.getByRole('button', { name: /^Name/ }).click()
    await until(async () => (await firstName(tab)) === 'listed-59')
    assert.equal(
      await tab.page.getByRole('columnheader', { name: /^Name/ }).getAttribute('aria-sort'),
      'descending',
    )

    await tab.page.getByRole('combobox', { name: 'Kind' }).click()
    await tab.page.getByRole('option', { name: 'embeddings' }).click()
    await until(async () => (await firstName(tab)) === 'listed-47')
    assert.equal(await tab.page.locator('tbody tr').count(), 3)
    assert.deepEqual(await tab.barriers(), [])
    assert.deepEqual(tab.faults, [])
  })

  it('of runs are sorted by the gateway, by name and by creation time', async () => {
    const dataset_id = await readyDataset(on.api, on.caller.accountId)
    for (const job_name of ['middle', 'first', 'last'])
      await createRun(on.api, on.caller.key, { dataset_id, job_name })
    await using tab = await on.open('/runs')
    await until(async () => (await firstName(tab)) === 'last')

    for (const [head, first] of [
      ['Created', 'middle'],
      ['Name', 'first'],
      ['Name', 'middle'],
    ] as const) {
      await tab.page.getByRole('button', { name: new RegExp(`^${head}`) }).click()
      await until(async () => (await firstName(tab)) === first)
    }
    const row = tab.page.locator('tbody tr').first()
    const plain = await backgroundOf(row)
    await row.hover()
    assert.notEqual(await backgroundOf(row), plain)
    assert.deepEqual(tab.faults, [])
  })

  it('of log lines start at the end, page backwards, and show each new line once', async () => {
    const { db } = on.api.database
    const jobId = await createRun(on.api, on.caller.key, {
      dataset_id: await readyDataset(on.api, on.caller.accountId),
    })
    await db.updateTable('training_run').set({ status: 'running' }).where('id', '=', jobId).execute()
    const write = (first: number, count: number) =>
      db
        .insertInto('job_log')
        .values(
          Array.from({ length: count }, (_, n) => ({
            job_id: jobId,
            attempt: 1,
            seq: first + n,
            message: `line ${first + n} of the log`,
            created_at: new Date(),
          })),
        )
        .execute()
    await write(1, LINES)
    await using tab = await on.open(`/runs/${jobId}`)
    const lines = tab.page.getByRole('log').locator('div')
    await lines.getByText(`line ${LINES} of`).waitFor()
    assert.equal(await lines.count(), 500)
    assert.notEqual(await backgroundOf(tab.page.getByRole('log')), 'rgba(0, 0, 0, 0)')

    await write(LINES + 1, 3)
    await lines.getByText(`line ${LINES + 3} of`).waitFor()
    await tab.page.getByRole('button', { name: 'Earlier lines' }).click()
    await lines.getByText('line 201 of').waitFor()
    await tab.page.getByRole('button', { name: 'Earlier lines' }).click()
    await lines.getByText('line 1 of').waitFor()

    const texts = await lines.allTextContents()
    // The platform wrote a line before these.
    const numbers = texts.flatMap((text) => Number(/line (\d+) of/.exec(text)?.[1]) || [])
    assert.deepEqual(
      numbers,
      Array.from({ length: LINES + 3 }, (_, n) => n + 1),
    )
    assert.equal(await tab.page.getByRole('button', { name: 'Earlier lines' }).count(), 0)
    assert.deepEqual(tab.faults, [])
  })
})
