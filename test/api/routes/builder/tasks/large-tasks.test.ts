import assert from 'node:assert/strict'
import { createInferenceActivities } from '../../../../../activities/control/tasks/tasks.ts'
import { reapOrphans } from '../../../../../api/gateway/journal/reaper.ts'
import type { NewTask } from '../../../../../db/tables/inference.ts'
import { newId } from '../../../../../domain/ids.ts'
import { buildHeldTask } from '../../../../support/builders/build-endpoint.ts'
import type { Answer, AnyBody, TestApi } from '../../../../support/servers/api.ts'
import { type LeanApi, startLeanApi } from '../../../../support/servers/lean-api.ts'
import { type SignedNode, signedNode } from '../../../../support/servers/nodes/signed-node.ts'

const LARGE = Buffer.from(JSON.stringify({ text: 'x'.repeat(4 * 1024 * 1024) }))
const FAILURE = { code: 'model_failed', message: 'out of memory', retryable: true }

describe('a task with a large input or result', () => {
  let on: LeanApi
  let api: TestApi
  let lean: LeanApi['lean']
  let caller: { accountId: string; key: string }
  let node: SignedNode
  before(async () => {
    on = await startLeanApi()
    ;({ api, lean } = on)
    caller = await api.account()
    node = await signedNode(api)
  })
  after(() => on?.[Symbol.asyncDispose]())

  const build = (overrides: Partial<NewTask>) =>
    buildHeldTask(api.database.db, caller.accountId, { input: LARGE, ...overrides })
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

  it('is cancelled without either being read, whether or not it has ended', async () => {
    const ended = await build({ status: 'succeeded', input: null, result: LARGE })
    const open = await build({})

    assert.equal((await lean(() => cancel(ended))).status, 409)
    assert.equal((await lean(() => cancel(open))).status, 200)
  })

  it('is placed, and abandoned, without either being read', async () => {
    const activities = createInferenceActivities(api.services)
    const id = await build({ error: 'the last node was lost' })

    const placed = await lean(() => activities.placeTask({ taskId: id, avoid: [], lost: false }))
    await lean(() => activities.giveUpTask({ taskId: id, reason: 'attempts' }))

    assert.equal(placed.why, 'no node is connected')
    assert.deepEqual(await statusOf(id), ['failed', 'the last node was lost'])
  })

  it('is claimed, renewed, failed and completed without either being read', async () => {
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

  it('fails along with its gateway without either being read', async () => {
    const id = await build({ status: 'running', gateway_id: newId() })

    await lean(() => reapOrphans(api.services.db, new Date()))

    assert.deepEqual(await statusOf(id), ['failed', 'the gateway that ran this task was lost'])
  })
})
