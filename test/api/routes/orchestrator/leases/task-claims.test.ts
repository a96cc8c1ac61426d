import assert from 'node:assert/strict'
import { sql } from 'kysely'
import { request } from 'undici'
import { newId } from '../../../../../domain/ids.ts'
import { turnKeyOf } from '../../../../../platform/turn-key.ts'
import { buildEndpoint } from '../../../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'
import { until } from '../../../../support/servers/nodes/node.ts'
import { type SignedNode, signedNode } from '../../../../support/servers/nodes/signed-node.ts'

const COMPLETE = { result: { predictions: [1] }, inference_time_ms: 3, model_state: 'cold' }

describe('task claims', () => {
  let api: TestApi
  let caller: { accountId: string; key: string }
  let endpoint: Awaited<ReturnType<typeof buildEndpoint>>
  let node: SignedNode
  let other: SignedNode
  before(async () => {
    api = await startApi()
    caller = await api.account()
    endpoint = await buildEndpoint(api.database.db, caller.accountId, { price_micro: 100 })
    node = await signedNode(api, 'one')
    other = await signedNode(api, 'two')
  })
  after(() => api[Symbol.asyncDispose]())

  const queue = async (): Promise<string> => {
    const { body } = await api.call('POST', `/api/builder/v1/endpoints/${endpoint.id}/infer:async`, {
      key: caller.key,
      body: { input: { instances: [{ x: 1 }] } },
    })
    return body.task_id
  }
  const claim = (by: SignedNode, id: string, body: object = {}) => by.post(`/api/v1/tasks/${id}/claim`, body)
  const lease = (by: SignedNode, token: string, verb: string, body: object = {}) =>
    by.post(`/api/v1/leases/${token}:${verb}`, body)
  const task = async (id: string) =>
    (await api.call('GET', `/api/builder/v1/tasks/${id}`, { key: caller.key })).body

  it('return the task with its lease and input URL, on both paths of the contract', async () => {
    const [first, second] = [await queue(), await queue()]

    const { status, body } = await claim(node, first)
    const atRoot = await node.post(`/tasks/${second}/claim`)

    assert.equal(status, 200)
    assert.deepEqual(
      [body.task_id, body.attempt, body.endpoint_id, body.model_name, body.model_key],
      [first, 1, endpoint.id, endpoint.name, endpoint.model_key],
    )
    assert.equal(body.turn, turnKeyOf(caller.accountId))
    assert.ok(Date.parse(body.lease_expires_at) > Date.now())
    const input = await request(body.input_url)
    assert.equal(input.statusCode, 200)
    assert.deepEqual(await input.body.json(), { instances: [{ x: 1 }] })
    assert.equal(atRoot.status, 200)
    assert.equal((await task(first)).status, 'preparing')
  })

  it('succeed for only one of many concurrent requests', async () => {
    const id = await queue()

    const statuses = await Promise.all(Array.from({ length: 6 }, async () => (await claim(node, id)).status))

    assert.deepEqual(
      statuses.toSorted((a, b) => a - b),
      [200, 409, 409, 409, 409, 409],
    )
  })

  it('work for a task that is dispatched again, even after the database clock is set back', async () => {
    const id = await queue()
    const { lease_token } = (await claim(node, id)).body
    await lease(node, lease_token, 'fail', { code: 'model_failed', message: 'x', retryable: true })
    const { db } = api.database
    const later = sql`now() + interval '1 hour'`
    await sql`update node_dispatch set dispatched_at = ${later} where subject_id = ${id}`.execute(db)
    await sql`update lease set created_at = ${later} where subject_id = ${id}`.execute(db)

    const again = await claim(node, id)
    await lease(node, again.body.lease_token, 'fail', { code: 'model_failed', message: 'x', retryable: true })

    assert.deepEqual([again.status, (await claim(other, id)).status], [200, 200])
  })

  it('complete a task once: result, ledger, event and counts', async () => {
    const id = await queue()
    const { lease_token } = (await claim(node, id)).body

    const done = await Promise.all([1, 2].map(() => lease(node, lease_token, 'complete', COMPLETE)))

    assert.deepEqual(
      done.map(({ status }) => status),
      [200, 200],
    )
    const { status, result, model_state, inference_time_ms } = await task(id)
    assert.deepEqual(
      [status, result, model_state, inference_time_ms],
      ['succeeded', { predictions: [1] }, 'cold', 3],
    )
    const { db } = api.database
    const lines = await db.selectFrom('ledger_line').selectAll().where('task_id', '=', id).execute()
    assert.equal(lines.length, 6)
    assert.ok(
      lines.some(({ purse, amount_micro }) => purse === `owner:${node.accountId}` && amount_micro === 80),
    )
    const usage = await db
      .selectFrom('usage_delta')
      .select((eb) => eb.fn.sum<string>('succeeded').as('n'))
      .where('endpoint_id', '=', endpoint.id)
      .executeTakeFirstOrThrow()
    assert.equal(Number(usage.n), 1)
  })

  it("store a language model's answer under the name of its endpoint", async () => {
    const chat = await buildEndpoint(api.database.db, caller.accountId, { task_type: 'chat' })
    const queued = await api.call('POST', `/api/builder/v1/endpoints/${chat.id}/infer:async`, {
      key: caller.key,
      body: { input: { messages: [{ role: 'user', content: 'hi' }] } },
    })
    const id: string = queued.body.task_id
    const { lease_token } = (await claim(node, id)).body

    const result = { object: 'chat.completion', model: 'model', choices: [] }
    await lease(node, lease_token, 'complete', { ...COMPLETE, result })

    assert.deepEqual((await task(id)).result, { ...result, model: chat.name })
  })

  it('reject a result under a lease that expired and went to another node', async () => {
    const id = await queue()
    const first = (await claim(node, id, { lease_s: 1 })).body
    await until(async () => (await claim(other, id)).status === 200)

    const late = await lease(node, first.lease_token, 'complete', COMPLETE)
    const renewed = await lease(node, first.lease_token, 'renew')

    assert.deepEqual([late.status, renewed.status], [409, 409])
    assert.equal((await task(id)).status, 'preparing')
    assert.equal((await request(first.input_url)).statusCode, 404)
  })

  it('reject the result of a cancelled task, and its token from any other node', async () => {
    const id = await queue()
    const { lease_token } = (await claim(node, id)).body
    assert.equal((await lease(other, lease_token, 'complete', COMPLETE)).status, 404)

    await api.call('POST', `/api/builder/v1/tasks/${id}:cancel`, { key: caller.key })

    assert.equal((await lease(node, lease_token, 'complete', COMPLETE)).status, 409)
    assert.equal((await claim(other, id)).status, 409)
    assert.equal((await task(id)).error, 'cancelled by the caller')
  })

  it('requeue a task that a node returns as retryable, and fail one that is not', async () => {
    const [later, never] = [await queue(), await queue()]
    const fail = async (id: string, body: object) =>
      lease(node, (await claim(node, id)).body.lease_token, 'fail', { code: 'model_failed', ...body })

    await fail(later, { message: 'out of memory', retryable: true })
    await fail(never, { code: 'input_refused', message: 'no such column', retryable: false })

    assert.equal((await task(later)).status, 'preparing')
    assert.equal((await task(later)).error, null)
    assert.equal((await claim(other, later)).body.attempt, 2)
    assert.deepEqual([(await task(never)).status, (await task(never)).error], ['failed', 'no such column'])
  })

  it('show the progress that a node reports with a renewal, which never decreases', async () => {
    const id = await queue()
    const { lease_token } = (await claim(node, id)).body
    const tell = (status: string, progress_pct: number) =>
      lease(node, lease_token, 'renew', { progress: { status, progress_pct, metadata: { eta_seconds: 3 } } })

    assert.equal((await tell('downloading_model', 40)).status, 200)
    const loading = await task(id)
    await tell('running', 0)
    await tell('preparing', 0)

    assert.equal(loading.status, 'downloading_model')
    assert.deepEqual(loading.status_detail, {
      status: 'downloading_model',
      progress_pct: 40,
      metadata: { eta_seconds: 3 },
    })
    assert.equal((await task(id)).status, 'running')
    assert.equal((await tell('running', 101)).status, 422)
  })

  it('measure a load only when no environment was installed for it', async () => {
    const measured = async (environment_ms: number) => {
      const id = await queue()
      const { lease_token, model_key } = (await claim(node, id)).body
      const { db } = api.database
      await db.deleteFrom('load_time').where('model_key', '=', model_key).execute()
      const done = { ...COMPLETE, model_state: 'cold', environment_ms }
      assert.equal((await lease(node, lease_token, 'complete', done)).status, 200)
      return (await db.selectFrom('load_time').selectAll().where('model_key', '=', model_key).execute())
        .length
    }

    assert.equal(await measured(20), 1)
    assert.equal(await measured(60_000), 0)
  })

  it('reject an invalid result, and an unknown task', async () => {
    const id = await queue()
    const { lease_token } = (await claim(node, id)).body

    assert.equal((await lease(node, lease_token, 'complete', { result: 3 })).status, 422)
    assert.equal((await claim(node, newId())).status, 404)
    assert.equal((await task(id)).status, 'preparing')
  })
})
