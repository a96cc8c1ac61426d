import assert from 'node:assert/strict'
import { createInferenceActivities } from '../../../../../activities/control/tasks/tasks.ts'
import { reapOrphans } from '../../../../../api/gateway/journal/reaper.ts'
import type { NewTask } from '../../../../../db/tables/inference.ts'
import { newId } from '../../../../../domain/ids.ts'
import { buildHeldTask } from '../../../../support/builders/build-endpoint.ts'
import { type Answer, type AnyBody, startApi, type TestApi } from '../../../../support/servers/api.ts'
import { startDatabase } from '../../../../support/servers/database.ts'
import { type SignedNode, signedNode } from '../../../../support/servers/signed-node.ts'
import { startTcpProxy, type TcpProxy } from '../../../../support/servers/tcp-proxy.ts'

const LARGE = Buffer.from(JSON.stringify({ text: 'x'.repeat(4 * 1024 * 1024) }))
const MAX_READ_BYTES = 1024 * 1024
const FAILURE = { code: 'model_failed', message: 'out of memory', retryable: true }

describe('a task with a large input or result', () => {
  const stack = new AsyncDisposableStack()
  let api: TestApi
  let caller: { accountId: string; key: string }
  let node: SignedNode
  let database: TcpProxy
  before(async () => {
    const shared = stack.use(await startDatabase())
    const url = new URL(shared.url)
    database = stack.use(await startTcpProxy(Number(url.port)))
    url.port = String(database.port)
    api = stack.use(await startApi({ database: shared, env: { DATABASE_URL: url.href } }))
    caller = await api.account()
    node = await signedNode(api)
  })
  after(() => stack.disposeAsync())

  const build = (overrides: Partial<NewTask>) =>
    buildHeldTask(api.database.db, caller.accountId, { input: LARGE, ...overrides })
  /** Runs an operation and asserts that the gateway receives neither the input nor the result from the database. */
  async function lean<T>(run: () => Promise<T>): Promise<T> {
    const before = database.bytes
    const value = await run()
    const bytes = database.bytes - before
    assert.ok(bytes > 0 && bytes < MAX_READ_BYTES, `read ${bytes} bytes`)
    return value
  }
  const cancel = (id: string) => api.call('POST', `/api/builder/v1/tasks/${id}:cancel`, { key: caller.key })
  const claim = (id: string): Promise<Answer<AnyBody>> => node.post(`/api/v1/tasks/${id}/claim`)
  const finish = (token: string, verb: string, body: object = {}): Promise<Answer<AnyBody>> =>
    node.post(`/api/v1/leases/${token}:${verb}`, body)
  const statusOf = async (id: string) => {
    const { db } = api.database
    const row = await db
      .selectFrom('task')
      .select(['status', 'error'])
      .where('id', '=', id)
      .executeTakeFirst()
    return [row?.status, row?.error]
  }

  it('is cancelled without reading them, whether it has ended or not', async () => {
    const ended = await build({ status: 'succeeded', input: null, result: LARGE })
    const open = await build({})

    assert.equal((await lean(() => cancel(ended))).status, 409)
    assert.equal((await lean(() => cancel(open))).status, 200)
  })

  it('is placed, and given up, without reading them', async () => {
    const activities = createInferenceActivities(api.services)
    const id = await build({ error: 'the last node was lost' })

    const placed = await lean(() => activities.placeTask({ taskId: id, avoid: [], lost: false }))
    await lean(() => activities.giveUpTask({ taskId: id, reason: 'attempts' }))

    assert.equal(placed.why, 'no node is connected')
    assert.deepEqual(await statusOf(id), ['failed', 'the last node was lost'])
  })

  it('is claimed, renewed, failed and completed without reading them', async () => {
    const id = await build({})

    const first = await lean(() => claim(id))
    await lean(() => finish(first.body.lease_token, 'renew'))
    await lean(() => finish(first.body.lease_token, 'fail', FAILURE))
    const second = await lean(() => claim(id))
    const done = { result: { predictions: [1] }, inference_time_ms: 3, model_state: 'cold' }
    await lean(() => finish(second.body.lease_token, 'complete', done))

    assert.equal(second.body.attempt, 2)
    assert.deepEqual(await statusOf(id), ['succeeded', null])
  })

  it('fails with its gateway without reading them', async () => {
    const id = await build({ status: 'running', gateway_id: newId() })

    await lean(() => reapOrphans(api.services.db, new Date()))

    assert.deepEqual(await statusOf(id), ['failed', 'the gateway that ran this task was lost'])
  })
})
