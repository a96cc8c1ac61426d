import assert from 'node:assert/strict'
import { copyFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import { openDatabase } from '../../db/database.ts'
import { eventually } from '../support/assertions/until.ts'
import { HearthRunner } from '../support/builders/run-hearth.ts'
import { regressionTable } from '../support/builders/tables.ts'
import { uploadTable } from '../support/servers/clients/builder-client.ts'
import { dataDirectory, startTestPlatform } from '../support/servers/platform.ts'
import { ChatsInFlight, chatsAgain, databaseUrl, FAKE_LLM_ENV, importChatModel } from './chats.ts'
import { startInbox, undelivered, verifiedEndpoint } from './deliveries.ts'
import { checkBooks, endings, inferLater, startRun } from './work.ts'

const CHAT_INPUT = { messages: [{ role: 'user', content: 'hi' }] }
const EVENT_TYPES = ['inference.task.succeeded', 'training.run.completed']
const EPOCHS = 400

interface Run {
  status: string
  error_message: string | null
  metrics: { epochs?: unknown[] } | null
}

describe('a platform restored from a backup', function () {
  this.timeout(600_000)

  it('ends the work that was open during the backup, with an empty Temporal', async () => {
    let accepts = false
    await using inbox = await startInbox(() => accepts)
    using data = dataDirectory()
    using restored = dataDirectory()
    using hearth = new HearthRunner()
    const file = join(hearth.folder, 'backup.tar')
    const env = { ...FAKE_LLM_ENV, ...inbox.environment(data.path) }
    const open = await backUpUnderLoad()

    const early = await hearth.run(['restore', file, '--objects', '--data-dir', restored.path])
    assert.equal(early.code, 2)
    assert.match(early.err, /lacks a key that the backup needs: .* in webhook_secret\.sealed/)
    assert.ok(!existsSync(join(restored.path, 'postgres')))
    copyFileSync(join(data.path, 'secrets.json'), join(restored.path, 'secrets.json'))
    const report = await hearth.json(['restore', file, '--objects', '--data-dir', restored.path])
    assert.deepEqual(report.missing_objects, [])
    assert.equal(inbox.received.size, 0)
    accepts = true
    await using platform = await startTestPlatform(restored.path, { env })
    await using db = openDatabase(databaseUrl(platform), { max: 1 })

    for (const [taskId, status] of await endings(platform, open.tasks)) {
      assert.equal(status, 'succeeded')
      await checkBooks(platform, taskId)
    }
    const run = await eventually(
      'the end of the run',
      async () => {
        const now = await platform.api.get<Run>(`/training/runs/${open.run}`)
        return now.status === 'running' || now.status === 'pending' ? undefined : now
      },
      240_000,
    )
    assert.equal(run.status, 'completed', run.error_message ?? '')
    const { metrics } = await platform.api.get<Run>(`/training/runs/${open.run}/metrics`)
    assert.equal(metrics?.epochs?.length, EPOCHS)
    await eventually('the end of every task', async () => {
      const { rows } = await sql`select from task where status not in ('succeeded', 'failed')`.execute(db)
      return rows.length === 0 || undefined
    })
    const { rows: unbalanced } = await sql`
      select task_id from ledger_line group by task_id having sum(amount_micro) <> 0`.execute(db)
    assert.deepEqual(unbalanced, [])
    await eventually('every delivery', async () => (await undelivered(db)).length === 0 || undefined, 240_000)
    for (const { id } of open.events) assert.ok(inbox.received.has(id), `event ${id} did not arrive`)

    /** Takes a backup while chats, tasks, a run and webhook deliveries are open. */
    async function backUpUnderLoad() {
      await using first = await startTestPlatform(data.path, { env })
      const { api } = first
      const { dataset_id: datasetId } = await uploadTable(api, regressionTable(3000))
      const warm = await importChatModel(first, 'warm-llm')
      const cold = await importChatModel(first, 'cold-llm', { load_s: 2 })
      const slow = await importChatModel(first, 'slow-llm', { load_s: 10 })
      await verifiedEndpoint(api, inbox.url('/in'), EVENT_TYPES)
      await chatsAgain(first, warm)
      await using rows = openDatabase(databaseUrl(first), { max: 1 })
      const runId = await startRun(first, datasetId, EPOCHS)
      await eventually('the run', async () => {
        const { metrics: current } = await api.get<Run>(`/training/runs/${runId}`)
        return (current?.epochs?.length ?? 0) > 0 || undefined
      })
      await eventually('an open delivery', async () => (await undelivered(rows)).length > 0 || undefined)
      const tasks = await Promise.all(Array.from({ length: 4 }, () => inferLater(first, slow, CHAT_INPUT)))
      const chats = await ChatsInFlight.begin(first, warm, cold)
      const { rows: events } = await sql<{ id: string }>`select event_id as id from webhook_delivery`.execute(
        rows,
      )

      const backup = await hearth.json(['backup', file, '--objects', '--data-dir', data.path])

      assert.equal(backup.from, `the data directory ${data.path}`)
      assert.equal((await api.get<Run>(`/training/runs/${runId}`)).status, 'running')
      // A victim that chats do not need: all of them end as if nothing had happened.
      await chats.check('control')
      return { run: runId, tasks, events }
    }
  })
})
