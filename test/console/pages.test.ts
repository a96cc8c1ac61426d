import assert from 'node:assert/strict'
import type { Browser } from 'playwright-core'
import { createRun, readyDataset } from '../support/builders/training.ts'
import { OPERATIONS_KEY } from '../support/servers/api.ts'
import { ChatApi } from '../support/servers/chat-api.ts'
import { ConsoleTab, requireBrowser, requireConsole } from '../support/servers/clients/browser.ts'

/** The pages with their headings; operator pages are opened with the operations key. */
const PAGES = [
  ['/', 'Overview'],
  ['/runs', 'Runs'],
  ['/models', 'Models'],
  ['/endpoints', 'Endpoints'],
  ['/datasets', 'Datasets'],
  ['/tasks', 'Tasks'],
  ['/webhooks', 'Webhooks'],
  ['/agents', 'Agents'],
  ['/account', 'Keys and usage'],
  ['/nodes', 'Nodes'],
  ['/queues', 'Queues'],
  ['/accounts', 'Accounts'],
  ['/kill-switch', 'Kill switch'],
  ['/audit', 'Audit'],
] as const

/** The width of a small phone. */
const NARROW = 360

describe('console pages', function () {
  this.timeout(60_000)
  let browser: Browser
  let world: ChatApi
  let endpoint: { id: string; name: string }
  let form: { id: string; name: string }
  let runId: string
  let datasetId: string

  before(async function () {
    await requireConsole(this)
    browser = await requireBrowser(this)
    world = await ChatApi.start({ config: { HEARTH_FEATURES: ['webhooks'] } })
    endpoint = await world.warm()
    form = await world.cold(
      { name: 'form' },
      {
        name: 'insurance-cost',
        task_type: 'tabular-regression',
        input_schema: JSON.stringify({
          type: 'object',
          required: ['age'],
          properties: {
            age: { type: 'integer', title: 'Age', minimum: 0 },
            region: { type: 'string', title: 'Region', enum: ['north', 'south'] },
          },
        }),
      },
    )
    const { api, caller } = world
    datasetId = await readyDataset(api, caller.accountId)
    runId = await createRun(api, caller.key, { dataset_id: datasetId, job_name: 'prices' })
    for (const epoch of [0, 1, 2, 3, 4, 5]) {
      const losses = { train_loss: 1 / (epoch + 1), val_loss: 1.3 / (epoch + 1) }
      await api.database.db
        .insertInto('job_epoch')
        .values({ job_id: runId, attempt: 1, epoch, ...losses })
        .execute()
    }
  })
  after(async () => {
    await browser?.close()
    await world?.[Symbol.asyncDispose]()
  })

  const open = async (path: string, options: Parameters<typeof ConsoleTab.open>[2] = {}) => {
    const tab = await ConsoleTab.open(browser, world.api.baseUrl, options)
    await tab.page.goto(`/console${path}#key=${world.caller.key}&operations_key=${OPERATIONS_KEY}`)
    return tab
  }
  /** Waits for the heading of a page, and until nothing on it is loading. */
  async function settled({ page }: ConsoleTab, heading: string): Promise<void> {
    await page.getByRole('heading', { name: heading, level: 1 }).waitFor()
    await page.locator('[role=status]').first().waitFor({ state: 'detached' })
  }

  for (const scheme of ['light', 'dark'] as const) {
    for (const [path, heading] of PAGES) {
      it(`${path} has no accessibility barriers and no policy violations in ${scheme} colors`, async () => {
        await using tab = await open(path, { scheme })
        await settled(tab, heading)

        await tab.picture(`${path === '/' ? 'overview' : path.slice(1)}-${scheme}`)
        assert.deepEqual(await tab.barriers(), [])
        assert.deepEqual(tab.faults, [])
        assert.equal(await tab.page.getByRole('alert').count(), 0)
      })
    }

    it(`detail pages have no accessibility barriers and no policy violations in ${scheme} colors`, async () => {
      const things = [
        [`/runs/${runId}`, 'prices', 'run'],
        [`/datasets/${datasetId}`, 'table', 'dataset'],
        [`/endpoints/${endpoint.id}`, endpoint.name, 'endpoint-chat'],
        [`/endpoints/${form.id}`, form.name, 'endpoint-form'],
      ] as const
      for (const [path, heading, name] of things) {
        await using tab = await open(path, { scheme })
        await tab.page.getByRole('heading', { level: 1 }).waitFor()
        await tab.page.locator('[role=status]').first().waitFor({ state: 'detached' })
        await tab.picture(`${name}-${scheme}`)
        assert.deepEqual(await tab.barriers(), [], heading)
        assert.deepEqual(tab.faults, [], heading)
      }
    })
  }

  it('fits a narrow screen, with the navigation behind a button', async () => {
    await using tab = await open('/', { width: NARROW })
    const wide: string[] = []
    const single = [
      `/runs/${runId}`,
      `/datasets/${datasetId}`,
      `/endpoints/${endpoint.id}`,
      `/endpoints/${form.id}`,
    ]
    for (const path of [...PAGES.map(([each]) => each), ...single]) {
      await tab.page.goto(`/console${path}`)
      await tab.page.getByRole('heading', { level: 1 }).waitFor()
      await tab.page.locator('[role=status]').first().waitFor({ state: 'detached' })
      const width = await tab.page
        .locator('html')
        .evaluate((html: { scrollWidth: number }) => html.scrollWidth)
      await tab.picture(`narrow-${path.slice(1, 10).replaceAll('/', '-')}`)
      if (width > NARROW) wide.push(`${path}: ${width}`)
    }
    await tab.page.getByRole('button', { name: 'Pages' }).click()
    await tab.page.getByRole('link', { name: 'Runs' }).click()

    await tab.page.getByRole('heading', { name: 'Runs', level: 1 }).waitFor()
    assert.deepEqual(wide, [])
  })

  it("shows a language model's answer as it is streamed", async () => {
    await using tab = await open(`/endpoints/${endpoint.id}`)
    await tab.page.getByLabel('Message').fill('Hello there')
    await tab.page.getByLabel('Message').press('Enter')

    await tab.page.getByText(/First words after \d+ ms/).waitFor()

    const answer = await tab.page.locator('[data-role=assistant] .answer').textContent()
    assert.ok((answer ?? '').length > 1, answer ?? '')
    assert.deepEqual(await tab.barriers(), [])
    assert.deepEqual(tab.faults, [])
  })

  it('builds a form from a schema and validates it without compiling code', async () => {
    await using tab = await open(`/endpoints/${form.id}`)
    await tab.page.getByRole('button', { name: 'Run' }).click()
    await tab.page.getByText(/Not sent: age is required/).waitFor({ state: 'attached' })
    await tab.picture('form-refused')

    await tab.page.getByLabel(/^Age/).fill('41')
    await tab.page.getByRole('button', { name: 'Run' }).click()
    await tab.page.getByRole('heading', { name: 'Result' }).waitFor()

    assert.deepEqual(tab.faults, [])
  })

  it('asks for the operations key on operator pages', async () => {
    await using tab = await ConsoleTab.open(browser, world.api.baseUrl)
    await tab.page.goto(`/console/kill-switch#key=${world.caller.key}`)
    await tab.page.getByLabel(/^Operations key/).fill('wrong')
    await tab.page.getByRole('button', { name: 'Open' }).click()
    await tab.page.getByText('This is not the operations key.').waitFor()

    await tab.page.getByLabel(/^Operations key/).fill(OPERATIONS_KEY)
    await tab.page.getByRole('button', { name: 'Open' }).click()

    await tab.page.getByText('Normal operation').waitFor()
    assert.deepEqual(tab.faults, [])
  })
  it('shows the configuration for an agent, which then lists its tools', async () => {
    await using tab = await open('/agents')
    await tab.page.getByRole('combobox', { name: 'Agent' }).click()
    await tab.page.getByRole('option', { name: 'Cursor' }).click()
    const text = await tab.page.getByLabel('configuration of Cursor', { exact: true }).textContent()
    const { url, headers } = JSON.parse(text ?? '').mcpServers.hearth

    const answer = await fetch(url, {
      method: 'POST',
      headers: {
        authorization: headers.Authorization.replace('YOUR_API_KEY', world.caller.key),
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    })
    assert.equal(answer.status, 200)
    assert.match(await answer.text(), /run_inference/)
    assert.deepEqual(tab.faults, [])
  })
})
