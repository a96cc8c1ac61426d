import assert from 'node:assert/strict'
import { MemoryHistory } from '../../api/gateway/links/memory-history.ts'
import { newId } from '../../domain/ids.ts'
import { buildHeldTask } from '../support/builders/build-endpoint.ts'
import { createRun, readyDataset } from '../support/builders/training.ts'
import { OPERATIONS_KEY } from '../support/servers/api.ts'
import { ConsoleTab } from '../support/servers/clients/browser.ts'
import { rawNode, reportOf } from '../support/servers/nodes/raw-node.ts'
import { ConsoleWorld } from '../support/servers/worlds/console-world.ts'

describe('operators in the console', function () {
  this.timeout(60_000)
  let on: ConsoleWorld
  let runId: string
  before(async function () {
    on = await ConsoleWorld.start(this, { config: { TEMPORAL_UI_URL: 'http://temporal.test' } })
    const dataset_id = await readyDataset(on.api, on.caller.accountId)
    runId = await createRun(on.api, on.caller.key, { dataset_id })
  })
  after(() => on?.[Symbol.asyncDispose]())

  const open = async (path: string): Promise<ConsoleTab> => {
    const tab = await ConsoleTab.open(on.browser, on.api.baseUrl)
    await tab.page.goto(`/console${path}#key=${on.caller.key}&operations_key=${OPERATIONS_KEY}`)
    return tab
  }

  it('see what needs attention, and how to fix it', async () => {
    await using tab = await open('/')
    const panel = tab.page.getByRole('region', { name: 'Needs attention' })
    await panel.waitFor()
    const { body } = await on.api.call('GET', '/api/v1/admin/overview', {
      headers: { 'x-api-key': OPERATIONS_KEY },
    })

    for (const { message } of body.attention) await panel.getByText(message).waitFor()
    assert.deepEqual(await tab.barriers(), [])
    assert.deepEqual(tab.faults, [])
  })

  it('stop all new work only after a confirmation', async () => {
    await using tab = await open('/kill-switch')
    const paths: string[] = []
    tab.page.on('request', (request) => {
      if (request.method() === 'POST') paths.push(new URL(request.url()).pathname)
    })
    const reason = tab.page.getByLabel(/^Reason/)
    await reason.fill('a test')
    await reason.press('Enter')
    const sure = tab.page.getByRole('button', { name: 'Stop all new work for every account' })
    await sure.waitFor()
    assert.deepEqual(paths, [])
    assert.deepEqual(await tab.barriers(), [])

    await tab.page.getByRole('button', { name: 'Cancel' }).click()
    await tab.page.getByRole('button', { name: 'Stop all new work…' }).click()
    await sure.click()
    await tab.page.waitForTimeout(100)
    assert.deepEqual(paths, ['/api/v1/admin/killswitch/activate'])
  })

  it('see on every page when the connection is lost and when it is restored', async () => {
    await using tab = await open('/runs')
    await tab.page.getByRole('table', { name: 'runs' }).waitFor()
    const lost = tab.page.getByText('Connection lost')
    assert.equal(await lost.count(), 0)

    await tab.page.route('**/api/**', (route) => route.abort())
    await lost.waitFor()
    await tab.page.unroute('**/api/**')

    await lost.waitFor({ state: 'detached' })
  })

  it('see the open work', async () => {
    await using tab = await open('/queues')
    const work = tab.page.getByRole('table', { name: 'open work' })

    await work.getByRole('row', { name: /^run 1 0/ }).waitFor()
    await tab.picture('queues-light')
    assert.deepEqual(await tab.barriers(), [])
  })

  it('see the workflow of a run and of a task, while accounts do not', async () => {
    const { api, caller } = on
    const taskId = await buildHeldTask(api.database.db, caller.accountId, { status: 'failed' })
    for (const [path, id] of [
      [`/runs/${runId}`, `job/${runId}`],
      [`/tasks/${taskId}`, `task/${taskId}`],
    ] as const) {
      await using tab = await open(path)
      const link = tab.page.getByRole('link', { name: id })
      const workflowUrl = `http://temporal.test/namespaces/default/workflows/${encodeURIComponent(id)}`
      assert.equal(await link.getAttribute('href'), workflowUrl)
      assert.deepEqual(tab.faults, [])

      await using plain = await on.open(path)
      await plain.page.getByRole('region', { name: 'Details' }).waitFor()
      assert.equal(await plain.page.getByText('Workflow', { exact: true }).count(), 0)
    }
  })

  it('find an account by part of its name, and see who changed what', async () => {
    const headers = { 'x-api-key': OPERATIONS_KEY }
    const body = { name: 'Wool and Linen' }
    const made = await on.api.call('POST', '/api/v1/admin/accounts', { headers, body })
    assert.equal(made.status, 201, made.text)
    await using tab = await open('/accounts')
    await tab.page.getByLabel(/^Name/).fill('linen')
    await tab.page.getByRole('row', { name: /Wool and Linen/ }).waitFor()
    await tab.page.locator('tbody tr').nth(1).waitFor({ state: 'detached' })

    await tab.page.getByRole('link', { name: 'Audit' }).click()
    const changes = tab.page.getByRole('table', { name: 'changes' })
    await changes.getByRole('row', { name: /operations-key createAccount account/ }).waitFor()
    await tab.page.getByLabel('Operation').fill('revokeKey')
    await tab.page.getByLabel('Operation').press('Enter')

    await tab.page.getByText('No recorded changes match.').waitFor()
    await tab.picture('audit-changes-light')
    assert.deepEqual(await tab.barriers(), [])
    assert.deepEqual(tab.faults, [])
  })

  it('see the memory of a node over the last hour and day', async () => {
    const { db } = on.api.database
    const { nodeId } = await rawNode(db)
    {
      await using history = new MemoryHistory({ db, gatewayId: newId(), log: on.api.services.log })
      for (let minute = 0; minute < 180; minute++) {
        const vram = { vram_mb: 4_000 + 10 * minute, vram_peak_mb: 6_000 }
        const processes = [{ model_key: 'wool', ram_mb: 800, ram_peak_mb: 900, ...vram }]
        history.note(nodeId, reportOf([], { processes }), Date.now() - (180 - minute) * 60_000)
      }
    }
    await using tab = await open(`/nodes/${nodeId}`)
    const panel = tab.page.getByRole('region', { name: 'Measured memory' })
    const points = (label: string) => panel.getByRole('img', { name: label }).getAttribute('data-points')

    // The hour moves on while the page loads.
    const perHour = Number(await points('Highest VRAM of the node and its processes in the last hour'))
    assert.ok(perHour >= 55 && perHour <= 61, `${perHour} points`)
    await panel.getByText('wool').waitFor()
    await tab.picture('node-memory-light')
    assert.deepEqual(await tab.barriers(), [])
    await panel.getByText('Last day').click()
    const perDay = Number(await points('Highest VRAM of the node and its processes in the last day'))
    assert.ok(perDay === 18 || perDay === 19, `${perDay} points`)
    await panel.getByText('RAM', { exact: true }).click()
    await panel.getByRole('img', { name: 'Highest RAM of the node' }).waitFor()
    assert.deepEqual(tab.faults, [])
  })
})
