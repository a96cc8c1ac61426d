import assert from 'node:assert/strict'
import { renameSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openDatabase } from '../../db/database.ts'
import { eventually } from '../support/assertions/until.ts'
import type { AnyBody } from '../support/servers/api.ts'
import { dataDirectory, startTestPlatform } from '../support/servers/platform.ts'
import type { TestPlatform } from '../support/servers/platform.ts'
import { type ChatModel, chatsAgain, databaseUrl, FAKE_LLM_ENV, importChatModel } from './chats.ts'
import { assertPaidOnce, chain, Cohorts } from './cohorts.ts'

/** How long nodes retry their calls; 60 s by default. */
const RETRY_S = Number(process.env.HEARTH_NODE_RETRY_S ?? 20)
/** After `RETRY_S` seconds, a node tries for another 5 s to report that it is giving up. */
const LONG_S = RETRY_S + 10
/** Restarting the server takes up to another 5 s. */
const SHORT_S = RETRY_S / 2

describe('the platform during a Postgres outage', function () {
  this.timeout(600_000)
  let data: ReturnType<typeof dataDirectory>
  let platform: TestPlatform
  let model: ChatModel
  let cohorts: Cohorts

  before(async () => {
    data = dataDirectory()
    platform = await startTestPlatform(data.path, {
      env: { ...FAKE_LLM_ENV, HEARTH_NODE_RETRY_S: String(RETRY_S) },
    })
    cohorts = new Cohorts(platform)
    model = await importChatModel(platform, 'chain')
    await chatsAgain(platform, model)
  })
  after(async () => {
    await platform?.stop()
    data?.[Symbol.dispose]()
  })

  /** Stops the server and keeps it from restarting for this time. */
  async function awayFor(seconds: number): Promise<void> {
    const [there, away] = ['postgres', 'postgres-away'].map((name) => join(data.path, name))
    renameSync(there!, away!)
    platform.kill('postgres')
    await sleep(seconds * 1_000)
    renameSync(away!, there!)
  }
  const attempts = ({ stages }: AnyBody) => stages.map(({ attempt }: AnyBody) => attempt)

  it("continues a cohort unaffected when the outage is shorter than the nodes' retry time", async () => {
    const taskId = await cohorts.run(chain(model), 'short')
    await cohorts.begun(taskId, 1)

    await awayFor(SHORT_S)
    const seen = await cohorts.ended(taskId)

    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    assert.deepEqual(attempts(seen), [1, 1, 1])
    await assertPaidOnce(cohorts, taskId)
  })

  it('retries the running stages of a cohort after a longer outage, keeps finished ones, and pays once', async () => {
    const taskId = await cohorts.run(chain(model), 'long')
    await cohorts.begun(taskId, 1)

    await awayFor(LONG_S)
    const seen = await cohorts.ended(taskId)

    assert.equal(seen.status, 'succeeded', JSON.stringify(seen))
    const [first, second] = attempts(seen)
    assert.deepEqual([first, second], [1, 2], JSON.stringify(seen))
    const retried = (await cohorts.events(taskId)).find(
      ({ type, stage_id }) => type === 'stage.retried' && stage_id === 'second',
    )
    assert.equal(retried?.data.code, 'platform_unavailable')
    await assertPaidOnce(cohorts, taskId)
  })

  it("continues a task unaffected when the outage is shorter than the nodes' retry time", async () => {
    const input = { messages: [{ role: 'user', content: 'hi' }], fake: { delay_ms: 3_000 } }
    const path = `/endpoints/${model.endpointId}/infer:async`
    const { task_id: id } = await platform.api.post<AnyBody>(path, { input })
    const taskIn = async (...among: string[]) => {
      await using db = openDatabase(databaseUrl(platform), { max: 1 })
      const query = db.selectFrom('task').select(['status', 'attempt', 'error'])
      const task = await query.where('id', '=', id).executeTakeFirstOrThrow()
      return among.includes(task.status) ? task : undefined
    }
    await eventually('its start', () => taskIn('claimed', 'generating'))

    await awayFor(SHORT_S)
    const ended = await eventually(
      'its end',
      () => taskIn('succeeded', 'failed').catch(() => undefined),
      180_000,
    )

    assert.deepEqual(ended, { status: 'succeeded', attempt: 1, error: null })
  })
})
