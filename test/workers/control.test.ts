import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { WebhookRoutes } from '../support/builders/webhook-routes.ts'
import { BARE_ENV } from '../support/compile-cache.ts'
import { startDatabase, type TestDatabase } from '../support/servers/database.ts'
import { until } from '../support/servers/nodes/node.ts'
import { startTemporal } from '../support/servers/temporal.ts'

const NOWHERE = '127.0.0.1:1'
const DAY_MS = 86_400_000

/** Starts Node with a clock that is ahead by `ms`. */
const clockAhead = (ms: number) =>
  `--import=data:text/javascript,${encodeURIComponent(`
  const { now } = Date
  globalThis.Date = class extends Date {
    constructor(...args) { super(...(args.length > 0 ? args : [now() + ${ms}])) }
    static now() { return now() + ${ms} }
  }`)}`

describe('the control worker', () => {
  let database: TestDatabase
  const started: ChildProcess[] = []
  before(async () => {
    database = await startDatabase()
  })
  after(async () => {
    for (const child of started) child.kill('SIGKILL')
    await database?.[Symbol.asyncDispose]()
  })

  function start(env: NodeJS.ProcessEnv) {
    const child = spawn(process.execPath, ['workers/control.ts'], {
      env: { ...BARE_ENV, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    started.push(child)
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output += String(chunk)))
    const exit = once(child, 'exit') as Promise<[number | null]>
    return { child, exit, output: () => output }
  }

  it('waits for PostgreSQL, logs it, and exits on SIGTERM', async () => {
    using folder = temporaryFolder()
    const { child, exit, output } = start({
      DATABASE_URL: 'postgres://nobody:none@127.0.0.1:1/none',
      TEMPORAL_ADDRESS: NOWHERE,
      HEARTH_DATA_DIR: folder.path,
    })

    await until(async () => output().includes('waiting for PostgreSQL'))
    child.kill('SIGTERM')

    assert.deepEqual((await exit)[0], 0)
  })

  it('waits for Temporal, logs it, and exits on SIGTERM', async () => {
    using folder = temporaryFolder()
    const { child, exit, output } = start({
      DATABASE_URL: database.url,
      TEMPORAL_ADDRESS: NOWHERE,
      HEARTH_DATA_DIR: folder.path,
    })

    await until(async () => output().includes('waiting for Temporal'))
    child.kill('SIGTERM')

    assert.deepEqual((await exit)[0], 0)
  })

  it('refuses to start without a database and names the setting', async () => {
    const { exit, output } = start({ TEMPORAL_ADDRESS: NOWHERE })

    assert.deepEqual((await exit)[0], 2)
    assert.match(output(), /^DATABASE_URL must be set/)
  })

  it("ends deliveries by the database's clock, however far its own clock is ahead or behind", async function () {
    this.timeout(240_000)
    await using temporal = await startTemporal()
    const on = await WebhookRoutes.start()
    await using _api = on.api
    await on.newAccount()
    await on.activate((await on.create()).id)
    const { database, services } = on.api
    const { db } = database
    const statuses = async () =>
      (await db.selectFrom('webhook_delivery').select('status').orderBy('deadline_at').execute()).map(
        ({ status }) => status,
      )

    for (const days of [3, -3]) {
      await db.deleteFrom('webhook_delivery').execute()
      await on.emit()
      await on.emit()
      const [first, second] = await db.selectFrom('webhook_delivery').select('id').execute()
      for (const [one, deadlineMs] of [
        [first, -60_000],
        [second, DAY_MS],
      ] as const)
        await db
          .updateTable('webhook_delivery')
          .set({
            status: 'retrying',
            attempts: 1,
            next_attempt_at: new Date(Date.now() - 60_000),
            deadline_at: new Date(Date.now() + deadlineMs),
          })
          .where('id', '=', one?.id ?? '')
          .execute()
      using folder = temporaryFolder()
      const { child, exit } = start({
        NODE_OPTIONS: clockAhead(days * DAY_MS),
        DATABASE_URL: database.url,
        TEMPORAL_ADDRESS: temporal.address,
        HEARTH_CACHE_DIR: services.config.HEARTH_CACHE_DIR,
        HEARTH_DATA_DIR: folder.path,
        HEARTH_OBJECT_DIR: folder.path,
        HEARTH_FEATURES: 'webhooks',
        HEARTH_ENCRYPTION_KEYS: services.config.HEARTH_ENCRYPTION_KEYS.join(),
      })

      await until(async () => (await statuses()).includes('dead_lettered'), 90_000)
      child.kill('SIGTERM')
      await exit

      assert.deepEqual(await statuses(), ['dead_lettered', 'retrying'], `${days} days`)
    }
  })
})
