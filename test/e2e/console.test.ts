import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Browser, Locator } from 'playwright-core'
import { AdminClient } from '../../cli/admin-client.ts'
import { importModel } from '../../cli/commands/models.ts'
import { until } from '../support/assertions/until.ts'
import { tinyGeneratives } from '../support/builders/models/tiny-generative.ts'
import { makeTinyLlm } from '../support/builders/models/tiny-llm.ts'
import { requireSpecialist, tinySpecialist } from '../support/builders/models/tiny-specialist.ts'
import { regressionTable } from '../support/builders/tables.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { startDestination, type TestDestination } from '../support/builders/webhooks.ts'
import { ConsoleTab, requireBrowser, requireConsole } from '../support/servers/clients/browser.ts'
import { dataDirectory, startTestPlatform, type TestPlatform } from '../support/servers/platform.ts'

/** Long enough for PyTorch to load a cold model on a busy machine. */
const LONG = { timeout: 180_000 }

describe("a platform's console", function () {
  this.timeout(900_000)
  const folder = temporaryFolder()
  const data = dataDirectory()
  let browser: Browser
  let receiver: TestDestination
  let platform: TestPlatform
  let tab: ConsoleTab

  before(requireSpecialist)
  before(async function () {
    await requireConsole(this)
    browser = await requireBrowser(this)
    this.timeout(900_000)
    receiver = await startDestination()
    const certificate = join(folder.path, 'receiver.pem')
    await writeFile(certificate, receiver.receiver.certificate)
    platform = await startTestPlatform(data.path, {
      env: {
        HEARTH_FEATURES: 'webhooks',
        HEARTH_EGRESS_ALLOW: `127.0.0.0/8:${receiver.receiver.port},::1/128:${receiver.receiver.port}`,
        NODE_EXTRA_CA_CERTS: certificate,
      },
    })
    tab = await ConsoleTab.open(browser, platform.ready.base_url)
    tab.context.setDefaultTimeout(60_000)
  })
  after(async () => {
    await tab?.[Symbol.asyncDispose]()
    await browser?.close()
    await platform?.stop()
    await receiver?.[Symbol.asyncDispose]()
    data[Symbol.dispose]()
    folder[Symbol.dispose]()
  })

  const heading = (name: string | RegExp): Promise<void> =>
    tab.page.getByRole('heading', { name, level: 1 }).waitFor()
  const press = (name: string | RegExp, within: ConsoleTab['page'] | Locator = tab.page): Promise<void> =>
    within.getByRole('button', { name, exact: true }).click()
  const goTo = (name: string): Promise<void> =>
    tab.page.getByRole('navigation').getByRole('link', { name, exact: true }).click()

  /** Saves a screenshot of the page in both themes, and checks its accessibility in both. */
  async function look(name: string): Promise<void> {
    for (const scheme of ['light', 'dark'] as const) {
      await tab.page.emulateMedia({ colorScheme: scheme })
      await tab.picture(`walk-${name}-${scheme}`)
      assert.deepEqual(await tab.barriers(), [], `${name} in ${scheme} colours`)
    }
    await tab.page.emulateMedia({ colorScheme: 'light' })
    assert.deepEqual(tab.faults, [], name)
  }
  async function imported(name: string, path: string, task: string): Promise<void> {
    const { base_url, operations_key, account_id } = platform.ready
    await importModel(new AdminClient(base_url, operations_key), { name, path, task, accountId: account_id })
  }

  it('lets a user sign in', async () => {
    await tab.page.goto('/console/')
    await tab.page.getByLabel(/^API key/).fill(platform.ready.api_key)
    await look('sign-in')
    await press('Sign in')
    await heading('Overview')
    await look('overview')
  })

  it('adds a webhook endpoint and tests it', async () => {
    await goTo('Webhooks')
    await tab.page.getByLabel(/^Name of the receiver/).fill('builds')
    await tab.page.getByLabel(/^Address/).fill(receiver.receiver.url('/', 'localhost'))
    await press('Add a receiver')
    await tab.page.getByText('The secret of builds').waitFor()
    const secret = tab.page.getByLabel('secret', { exact: true })
    const first = await secret.textContent()
    await tab.page
      .getByRole('row', { name: /builds/ })
      .getByText('Active')
      .waitFor(LONG)
    await look('webhooks')

    await press('Create a new secret for builds')
    await until(async () => (await secret.textContent()) !== first)
    assert.match((await secret.textContent()) ?? '', /^whsec_/)
    await press('Forget the secret')
    await press('Send a test event to builds')
    const deliveries = tab.page.getByRole('table', { name: 'deliveries' })
    await deliveries.getByRole('row', { name: /webhook\.test Succeeded/ }).waitFor(LONG)
    assert.ok(receiver.received.some(({ event }) => event.type === 'webhook.test'))
    assert.deepEqual(tab.faults, [])
  })

  it('uploads a table', async () => {
    await goTo('Datasets')
    const chooser = tab.page.waitForEvent('filechooser')
    await tab.page.getByRole('button', { name: 'File' }).click()
    const file = { name: 'houses.csv', mimeType: 'text/csv', buffer: regressionTable(4_000) }
    await (await chooser).setFiles(file)
    await press('Upload')
    await heading('houses')
    await tab.page.getByRole('table', { name: 'columns' }).waitFor()
    await look('dataset')
  })

  it('trains on the table and updates the curve', async () => {
    await tab.page.getByRole('combobox', { name: /^What to train/ }).click()
    await tab.page.getByRole('option', { name: 'Tabular regression' }).click()
    await tab.page.getByRole('combobox', { name: 'Column to predict' }).fill('target')
    await press('Settings')
    await tab.page.getByLabel('epochs', { exact: true }).fill('2000')
    await tab.page.getByLabel('learning_rate', { exact: true }).fill('0.02')
    await look('train')
    await press('Train')
    await heading('houses')

    const chart = tab.page.locator('[data-points]')
    await chart.waitFor(LONG)
    const points = async () => Number(await chart.getAttribute('data-points'))
    const early = await points()
    await until(async () => (await points()) > early)
    await look('run-live')
    await tab.page.getByText('Completed', { exact: true }).first().waitFor(LONG)
    await tab.page.locator('[data-points="2000"]').waitFor()
    await tab.page.getByRole('table', { name: 'artifacts' }).waitFor()
    await look('run')
    await tab.picture('readme-run', 900)
  })

  it('replays a webhook delivery about the run', async () => {
    await goTo('Webhooks')
    const deliveries = tab.page.getByRole('table', { name: 'deliveries' })
    await deliveries
      .getByRole('row', { name: /training\.run\.completed Succeeded/ })
      .getByRole('link')
      .click(LONG)
    const completedEvents = () =>
      receiver.received.filter(({ event }) => event.type === 'training.run.completed')
    const before = completedEvents().length
    await press('Deliver again')
    await tab.page.getByText('Redelivery of').waitFor()
    await tab.page.getByRole('row', { name: /Redelivery of [0-9a-f]{8}/ }).waitFor()
    await tab.page.getByRole('table', { name: 'attempts' }).getByText('Succeeded').waitFor(LONG)

    assert.equal(completedEvents().length, before + 1)
    await look('delivery')
  })

  it('registers the result and shows its lineage', async () => {
    await goTo('Runs')
    await look('runs')
    await tab.page.getByRole('link', { name: 'houses' }).click()
    await tab.page.getByLabel(/^Name of the model/).fill('House prices')
    await press('Register')
    await heading('House prices')
    const step = tab.page.getByRole('group', { name: 'The selected item' })
    await step.getByRole('button', { name: /^produced: houses/ }).click()
    await step.getByRole('button', { name: /^trained on: houses/ }).click()
    await step.getByText('dataset: houses').waitFor()
    await look('model')
  })

  it('serves the model and calls it in the playground', async () => {
    await goTo('Runs')
    await tab.page.getByRole('link', { name: 'houses' }).click()
    await tab.page.getByLabel(/^Name of the endpoint/).fill('house-prices')
    await press('Serve')
    await heading('house-prices')
    await press('Run')
    await tab.page.getByRole('region', { name: 'Result' }).getByText('Succeeded').waitFor(LONG)
    await tab.page.getByRole('table', { name: 'predictions' }).waitFor()
    await look('playground')
    await tab.picture('readme-endpoint', 900)
    await tab.page.getByRole('tab', { name: 'Code' }).click()
    for (const language of ['curl', 'TypeScript', 'Python'])
      await tab.page.getByRole('region', { name: language }).waitFor()
    await look('code')
  })

  it('shows the streamed answer of a language model', async () => {
    const path = join(folder.path, 'chatty')
    await makeTinyLlm(path, { says: ['Good ', 'evening', ', ', 'Ann'] })
    await imported('chatty', path, 'chat')
    await goTo('Endpoints')
    await tab.page.getByRole('link', { name: 'chatty' }).click()
    await tab.page.getByLabel('Message').fill('Hello')
    await tab.page.getByLabel('Message').press('Enter')
    await tab.page.getByText(/First words after \d+ ms/).waitFor(LONG)

    assert.equal(await tab.page.locator('[data-role=assistant] .answer').textContent(), 'Good evening, Ann')
    await look('chat')
  })

  it('compares the vectors of texts, and shows a generated image', async () => {
    const [painter = ''] = await tinyGeneratives([{ kind: 'stable-diffusion' }])
    await imported('nearby', await tinySpecialist(), 'embeddings')
    await imported('painter', painter, 'text-to-image')
    await goTo('Endpoints')
    await tab.page.getByRole('link', { name: 'nearby' }).click()
    await press('Compare')
    const nearness = tab.page.getByRole('table', { name: 'similarity' })
    await nearness.getByRole('row', { name: /^1\. .* 1\.00/ }).waitFor(LONG)
    await look('embeddings')

    await goTo('Endpoints')
    await tab.page.getByRole('link', { name: 'painter' }).click()
    for (const [field, value] of Object.entries({ width: '64', height: '64', num_inference_steps: '2' }))
      await tab.page.getByLabel(field, { exact: true }).fill(value)
    await press('Run')
    const picture = tab.page.getByRole('region', { name: 'Result' }).getByRole('img')
    await picture.waitFor(LONG)
    await until(() => picture.evaluate((img: { naturalWidth: number }) => img.naturalWidth > 0))
    await look('picture')
  })

  it('shows operators a node with its models, and the state of a workflow', async () => {
    await goTo('Nodes')
    await tab.page.getByLabel(/^Operations key/).fill(platform.ready.operations_key)
    await press('Open')
    await tab.page.getByRole('table', { name: 'nodes' }).getByRole('link').click()
    await tab.page.getByRole('table', { name: 'models of the node' }).waitFor()
    await tab.page
      .getByRole('log', { name: 'Log of the node' })
      .getByText(/Reading the dataset|epoch/i)
      .first()
      .waitFor()
    await look('node')
    for (const page of ['Models', 'Endpoints', 'Tasks', 'Agents', 'Keys and usage', 'Accounts', 'Audit']) {
      await goTo(page)
      await heading(page)
      await look(page.toLowerCase().replaceAll(' ', '-'))
    }
  })

  it('stops new work with the kill switch, shows it on the overview, and releases it', async () => {
    await goTo('Kill switch')
    await tab.page.getByLabel(/^Reason/).fill('a walk through the console')
    await press('Stop all new work…')
    await press('Stop all new work for every account')
    await tab.page.getByText('All new work is blocked').waitFor()
    await look('kill-switch')
    await goTo('Overview')
    await tab.page.getByRole('region', { name: 'Needs attention' }).getByText('kill switch').first().waitFor()
    await goTo('Runs')
    await tab.page.getByRole('link', { name: 'houses' }).click()
    await press('Run again')
    await press('Start the run')
    await tab.page
      .getByRole('alert')
      .getByText(/stopped by an operator/)
      .waitFor()

    await goTo('Kill switch')
    await tab.page.getByLabel(/^Reason/).fill('the walk goes on')
    await press('Resume')
    await tab.page.getByText('Normal operation').waitFor()
    await goTo('Runs')
    await tab.page.getByRole('link', { name: 'houses' }).click()
    await press('Run again')
    await press('Start the run')
    await tab.page.getByRole('button', { name: 'Cancel' }).waitFor()
    await goTo('Queues')
    const workflow = tab.page
      .getByRole('table', { name: 'unfinished work' })
      .getByRole('link', { name: /^job\// })
    const address = (await workflow.getAttribute('href')) ?? ''
    assert.ok(address.startsWith(`${platform.ready.temporal_ui_url}/namespaces/`), address)
    await look('queues')
    assert.deepEqual(tab.faults, [])
  })
})
