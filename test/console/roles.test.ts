import assert from 'node:assert/strict'
import { buildEndpoint, buildHeldTask, buildRun, buildVersion } from '../support/builders/build-endpoint.ts'
import { readyDataset } from '../support/builders/training.ts'
import { WEBHOOK_BODY, WebhookRoutes } from '../support/builders/webhook-routes.ts'
import type { ConsoleTab } from '../support/servers/clients/browser.ts'
import { ConsoleWorld } from '../support/servers/worlds/console-world.ts'

/** Excludes operator pages, which ask for the operations key whatever the role. */
const LISTS = ['', 'runs', 'models', 'endpoints', 'datasets', 'tasks', 'webhooks', 'agents', 'account']

/** The names of buttons that only show, sort, filter, find or copy something. */
const LOOKS = [
  /^(?:Open|Compare|Earlier lines|Show more|Zoom In|Zoom Out|Fit View)$/,
  /^(?:Name|Created|Requests)(?: [↑↓])?$/,
  /^(?:Get|Copy) /,
  // The next step of a lineage, and the tools of an agent.
  /^[a-z ]+: /,
  /^[a-z0-9._-]+$/,
]
const lookOf = (name: string): RegExp | undefined => LOOKS.find((look) => look.test(name))

/** The buttons that only admins see; the gateway would reject an operator. */
const OF_ADMINS = [
  'Add a receiver',
  'Delete table',
  'Disable',
  'Create a new secret for mine',
  'Create a key',
  'Prefer',
  'Remove mine',
  'Revoke',
  'Set copies',
  'Switch mine off',
]

describe('roles in the console', function () {
  this.timeout(300_000)
  let on: ConsoleWorld
  const paths: string[] = [...LISTS]
  before(async function () {
    on = await ConsoleWorld.start(this, { config: { HEARTH_FEATURES: ['webhooks'] } })
    paths.push(...(await things(on)))
  })
  after(() => on?.[Symbol.asyncDispose]())

  /** Opens a page in a role, and fills the required fields of its forms. */
  async function visit({ page }: ConsoleTab, role: string, path: string, part?: string): Promise<void> {
    await page.goto(`/console/${path}`)
    await page.getByRole('banner').getByText(`, ${role}`).waitFor()
    await page.getByRole('heading', { level: 1 }).waitFor()
    if (part !== undefined) await page.getByRole('tab', { name: part, exact: true }).click()
    await page.locator('[role=status]').first().waitFor({ state: 'detached' })
  }
  async function fill({ page }: ConsoleTab): Promise<void> {
    for (const input of await page.locator('#content input[required]:visible').all()) {
      if ((await input.inputValue()) !== '') continue
      if ((await input.getAttribute('aria-haspopup')) === 'listbox') {
        await input.click()
        await page.getByRole('option').first().click()
      } else await input.fill('https://hooks.hearth-user.com/in')
    }
    for (const chooser of await page.locator('#content input[type=file]').all())
      await chooser.setInputFiles({ name: 'a.csv', mimeType: 'text/csv', buffer: Buffer.from('a,b\n1,2\n') })
  }
  const names = ({ page }: ConsoleTab): Promise<string[]> =>
    page
      .locator('#content')
      .getByRole('button')
      .evaluateAll((all: { ariaLabel: string | null; textContent: string | null }[]) =>
        all.map((each) => (each.ariaLabel ?? each.textContent ?? '').trim()),
      )

  /** Presses every button of every page once, each on a freshly opened page; returns their names. */
  async function pressAll(role: 'viewer' | 'operator'): Promise<{ seen: string[]; refused: string[] }> {
    const key = await on.api.key(on.caller.accountId, role)
    await using tab = await on.open('/', key)
    const [seen, pressed, refused] = [new Set<string>(), new Set<string>(), [] as string[]]
    let last = ''
    tab.page.on('response', (answer) => {
      if (answer.status() === 403)
        refused.push(`${last}: ${answer.request().method()} ${new URL(answer.url()).pathname}`)
    })
    for (const path of paths) {
      await visit(tab, role, path)
      const parts = await tab.page.getByRole('tab').allTextContents()
      for (const part of parts.length > 0 ? parts : [undefined]) {
        await visit(tab, role, path, part)
        for (const name of new Set(await names(tab))) {
          seen.add(name)
          // Buttons that only show something do the same on each page.
          const kind = String(lookOf(name) ?? `${path} ${part ?? ''} ${name}`)
          if (pressed.has(kind)) continue
          pressed.add(kind)
          last = kind
          await visit(tab, role, path, part)
          await fill(tab)
          const button = tab.page.locator('#content').getByRole('button', { name, exact: true }).first()
          if ((await button.count()) > 0 && (await button.isEnabled())) await button.click()
          await tab.page.waitForLoadState('networkidle', { timeout: 400 }).catch(() => {})
        }
      }
    }
    assert.deepEqual(tab.faults, [])
    return { seen: [...seen], refused }
  }

  it('hide from viewers every button that changes anything or whose request is rejected', async () => {
    const { seen, refused } = await pressAll('viewer')

    assert.deepEqual(
      seen.filter((name) => !lookOf(name)),
      [],
    )
    assert.deepEqual(refused, [])
    assert.ok(seen.length > 5, String(seen))
  })

  it('hide from operators every button whose request is rejected', async () => {
    const { seen, refused } = await pressAll('operator')

    assert.deepEqual(refused, [])
    for (const name of [
      'Upload',
      'Train',
      'Merge',
      'Run',
      'Send',
      'Cancel',
      'Resume',
      'Deliver again',
      'Register',
      'Delete broken',
    ])
      assert.ok(seen.includes(name), `${name} is not among ${String(seen)}`)
    const ofAdmins = seen.filter((name) => OF_ADMINS.some((each) => name.startsWith(each)))
    assert.deepEqual(ofAdmins, [])
  })

  it('show an admin the actions that only admins may perform', async () => {
    await using tab = await on.open('/webhooks')
    const seen: string[] = []
    const dataset = paths.find((path) => path.startsWith('datasets/')) ?? ''
    const endpoint = paths.find((path) => path.startsWith('endpoints/')) ?? ''
    const pages = [['webhooks'], ['account'], [dataset], [endpoint], ['models', 'Registry']] as const
    for (const [path, part] of pages) {
      await visit(tab, 'admin', path, part)
      seen.push(...(await names(tab)))
    }
    for (const each of OF_ADMINS)
      assert.ok(
        seen.some((name) => name.startsWith(each)),
        `${each} is not among ${String(seen)}`,
      )
  })
})

/** Creates one of everything that has a page, in each state that offers different actions. */
async function things({ api, caller: { accountId, key } }: ConsoleWorld): Promise<string[]> {
  const { db } = api.database
  const now = new Date()
  const ended = { started_at: now, completed_at: now }
  const dataset_id = await readyDataset(api, accountId)
  const runs = [
    await buildRun(db, accountId, {
      status: 'pending',
      dataset_id,
      waiting_reason: 'no node',
      waiting_since: now,
    }),
    await buildRun(db, accountId, { status: 'running', dataset_id, started_at: now }),
    await buildRun(db, accountId, { status: 'pending', dataset_id, paused_at: now }),
    await buildRun(db, accountId, { status: 'failed', dataset_id, error_message: 'no column', ...ended }),
    await buildRun(db, accountId, { status: 'completed', dataset_id, ...ended }),
  ]
  const version = await buildVersion(db, accountId, { job_id: runs.at(-1)!.id })
  const model = await api.call('POST', '/api/builder/v1/models', {
    key,
    body: { name: 'prices', version_id: version.id },
  })
  const endpoints = []
  for (const task_type of ['regression', 'chat', 'embeddings'])
    endpoints.push(await buildEndpoint(db, accountId, { task_type }))
  const tasks = [
    await buildHeldTask(db, accountId),
    await buildHeldTask(db, accountId, { status: 'failed', error: 'no room', ...ended }),
  ]
  const webhooks = Object.assign(new WebhookRoutes(api), { accountId, key })
  const receiver = await webhooks.create(WEBHOOK_BODY)
  await webhooks.activate(receiver.id)
  await webhooks.emit()
  const [delivery] = await webhooks.listed()
  await webhooks.end(delivery.delivery_id)
  return [
    ...runs.map(({ id }) => `runs/${id}`),
    `compare?runs=${runs.map(({ id }) => id).join(',')}`,
    `models/${model.body.model_id}`,
    ...endpoints.map(({ id }) => `endpoints/${id}`),
    `datasets/${dataset_id}`,
    `datasets/${await readyDataset(api, accountId, { status: 'failed', name: 'broken' })}`,
    ...tasks.map((id) => `tasks/${id}`),
    `webhooks/${delivery.delivery_id}`,
  ]
}
