import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { request } from 'undici'
import * as invocationRepository from '../../../../../db/repositories/actions/invocations.ts'
import * as taskRepository from '../../../../../db/repositories/tasks/tasks.ts'
import type { EndpointRow } from '../../../../../db/tables/models.ts'
import { SOON_MS } from '../../../../support/assertions/until.ts'
import { OPERATIONS_KEY } from '../../../../support/servers/api.ts'
import { InferenceApi } from '../../../../support/servers/inference-api.ts'
import { addModel, until } from '../../../../support/servers/nodes/node.ts'

const BUILDER = '/api/builder/v1'

describe('invocations of endpoints', () => {
  let on: InferenceApi
  let warm: EndpointRow
  let cold: EndpointRow
  before(async () => {
    on = await InferenceApi.start()
    warm = await on.endpointOver(await on.loadedModel(), { price_micro: 1_000 })
    cold = await on.endpointOver(await addModel(on.api, { name: 'never-loaded' }))
  })
  after(() => on?.[Symbol.asyncDispose]())

  const invoke = (
    slug: string,
    body: object,
    { key = on.caller.key, headers = {} }: { key?: string; headers?: Record<string, string> } = {},
  ) => on.api.call('POST', `${BUILDER}/actions/${slug}:invoke`, { key, body, headers })
  const read = (id: string, key = on.caller.key) =>
    on.api.call('GET', `${BUILDER}/invocations/${id}`, { key })
  const eventsOf = async (id: string) => {
    const rows = await on.api.database.db
      .selectFrom('event')
      .select(['type', 'payload'])
      .where('resource_id', '=', id)
      .execute()
    return rows.map(({ type, payload }) => ({ type, payload: JSON.parse(payload.toString()) }))
  }
  const countInvocations = async () => {
    const { n } = await on.api.database.db
      .selectFrom('invocation')
      .select((eb) => eb.fn.countAll<number>().as('n'))
      .executeTakeFirstOrThrow()
    return n
  }

  it('return the result of a loaded model, along with the task that did the work', async () => {
    const { status, body } = await invoke(warm.name, { input: { instances: [1] } })

    assert.equal(status, 200)
    assert.deepEqual(
      [body.slug, body.kind, body.status, body.job_id, body.error],
      [warm.name, 'trained_model', 'completed', null, null],
    )
    assert.deepEqual(body.result, { predictions: [1], weights: 'echo' })
    const stored = await read(body.invocation_id)
    assert.deepEqual({ ...stored.body, completed_at: null }, { ...body, completed_at: null })
    const task = await on.task(body.task_id)
    assert.deepEqual(task.body.result, body.result)
    const { surface } = (await taskRepository.findTask(on.api.database.db, {
      id: body.task_id,
      accountId: on.caller.accountId,
    }))!
    assert.equal(surface, 'action')
  })

  it("have their own event, in addition to the task's", async () => {
    const { body } = await invoke(warm.name, { input: { instances: [1] } })

    const [event, ...others] = await eventsOf(body.invocation_id)

    assert.equal(others.length, 0)
    assert.equal(event?.type, 'invocation.completed')
    const { id, created_at, ...payload } = event.payload
    assert.ok(id && created_at)
    assert.deepEqual(payload, {
      object: 'event',
      api_version: '1',
      type: 'invocation.completed',
      account_id: on.caller.accountId,
      data: {
        resource: { id: body.invocation_id, object: 'invocation', status: 'completed' },
        resource_url: `${BUILDER}/invocations/${body.invocation_id}`,
      },
    })
    assert.deepEqual(
      (await eventsOf(body.task_id)).map(({ type }) => type),
      ['inference.task.succeeded'],
    )
  })

  it("fail with the model's error message", async () => {
    const { status, body } = await invoke(warm.name, { input: { refuse: 'age must be a number' } })

    assert.equal(status, 200)
    assert.deepEqual([body.status, body.error, body.result], ['failed', 'age must be a number', null])
    const stored = await read(body.invocation_id)
    assert.deepEqual([stored.body.status, stored.body.error], ['failed', 'age must be a number'])
    assert.deepEqual(
      (await eventsOf(body.invocation_id)).map(({ type }) => type),
      ['invocation.failed'],
    )
  })

  it('get 202 when the model exceeds the timeout, and can be read later', async () => {
    const { status, body } = await invoke(warm.name, { input: { wait_s: 2 }, sync_timeout_s: 1 })

    assert.equal(status, 202)
    assert.deepEqual([body.status, body.completed_at], ['running', null])
    assert.match(body.note, new RegExp(`GET ${BUILDER}/invocations/${body.invocation_id}`))
    await until(async () => (await read(body.invocation_id)).body.status === 'completed')
    assert.deepEqual((await read(body.invocation_id)).body.result, { waited_s: 2 })
    assert.deepEqual(
      (await eventsOf(body.invocation_id)).map(({ type }) => type),
      ['invocation.completed'],
    )
  })

  it('are queued immediately when the caller does not wait', async () => {
    const { status, body } = await invoke(cold.name, { input: { instances: [1] }, sync: false })

    assert.equal(status, 202)
    assert.deepEqual([body.status, body.result], ['queued', null])
    const start = await on.api.database.db
      .selectFrom('workflow_start')
      .select('workflow')
      .where('workflow_id', '=', `task/${body.task_id}`)
      .executeTakeFirstOrThrow()
    assert.equal(start.workflow, 'coldInference')
    assert.deepEqual(await eventsOf(body.invocation_id), [])
  })

  it('end with their task, with one event however often the task is ended', async () => {
    const { db } = on.api.database
    const { body } = await invoke(cold.name, { input: { instances: [1] }, sync: false })

    for (let i = 0; i < 2; i++) {
      await db
        .transaction()
        .execute((trx) =>
          taskRepository.endTask(trx, body.task_id, { status: 'failed', error: 'no node' }, new Date()),
        )
    }

    const { status, error, completed_at } = (await read(body.invocation_id)).body
    assert.deepEqual([status, error], ['failed', 'no node'])
    assert.ok(completed_at)
    assert.deepEqual(
      (await eventsOf(body.invocation_id)).map(({ type }) => type),
      ['invocation.failed'],
    )
  })

  it('get their event from a sweep over open rows when an older process has ended the task', async () => {
    const { db } = on.api.database
    const { body } = await invoke(cold.name, { input: { instances: [1] }, sync: false })
    await db
      .updateTable('task')
      .set({ status: 'failed', error: 'no node', completed_at: new Date() })
      .where('id', '=', body.task_id)
      .execute()

    const ended = [
      await invocationRepository.endFinishedInvocations(db, 100),
      await invocationRepository.endFinishedInvocations(db, 100),
    ]

    assert.deepEqual(ended, [1, 0])
    assert.deepEqual(
      (await eventsOf(body.invocation_id)).map(({ type }) => type),
      ['invocation.failed'],
    )
  })

  it('are rejected with the path of the invalid field before anything is written', async () => {
    const before = await countInvocations()

    const wrong = await invoke(warm.name, { input: { instances: [true] } })
    const unknown = await invoke(warm.name, { input: { instances: [1] }, sink: true })
    const missing = await invoke(warm.name, {})
    const window = await invoke(warm.name, { input: {}, sync_timeout_s: 301 })

    assert.deepEqual(
      [wrong, unknown, missing, window].map(({ status, body }) => [status, body.detail[0].loc]),
      [
        [422, ['body', 'input', 'instances', 0]],
        [422, ['body', 'sink']],
        [422, ['body', 'input']],
        [422, ['body', 'sync_timeout_s']],
      ],
    )
    assert.equal(await countInvocations(), before)
  })

  it('belong to their account, like the actions', async () => {
    const { body } = await invoke(warm.name, { input: { instances: [1] } })
    const { key } = await on.api.account()

    const foreign = await read(body.invocation_id, key)
    const invoked = await invoke(warm.name, { input: { instances: [1] } }, { key })
    const shown = await on.api.call('GET', `${BUILDER}/actions/${warm.name}`, { key })
    const listed = await on.api.call('GET', `${BUILDER}/actions`, { key })

    assert.deepEqual([foreign.status, invoked.status, shown.status], [404, 404, 404])
    assert.deepEqual(
      listed.body.actions.map(({ slug }: { slug: string }) => slug),
      ['training.merge', 'training.retrain_on'],
    )
  })

  it('require the operator role, while a viewer may read them', async () => {
    const { body } = await invoke(warm.name, { input: { instances: [1] } })
    const viewer = await on.api.key(on.caller.accountId, 'viewer')

    const refused = await invoke(warm.name, { input: { instances: [1] } }, { key: viewer })
    const { status } = await read(body.invocation_id, viewer)
    const anonymous = await on.api.call('GET', `${BUILDER}/invocations/${body.invocation_id}`)

    assert.deepEqual([refused.status, status, anonymous.status], [403, 200, 401])
  })

  it('get 409 for a paused endpoint and 404 for an unknown action', async () => {
    const paused = await on.endpointOver(warm.model_key, { status: 'paused' })

    const answers = [
      await invoke(paused.name, { input: {} }),
      await invoke('no-such-action', { input: {} }),
      await invoke(warm.id, { input: {} }),
    ]

    assert.deepEqual(
      answers.map(({ status }) => status),
      [409, 404, 404],
    )
  })

  it('are cancelled when their client disconnects', async () => {
    const before = await countInvocations()
    const leaving = new AbortController()
    const pendingResponse = request(`${on.api.baseUrl}${BUILDER}/actions/${warm.name}:invoke`, {
      method: 'POST',
      headers: { 'x-api-key': on.caller.key, 'content-type': 'application/json' },
      body: JSON.stringify({ input: { wait_s: 20 } }),
      signal: leaving.signal,
    })
    pendingResponse.catch(() => {})
    await on.inFlight(1)

    leaving.abort()

    await on.inFlight(0, SOON_MS)
    assert.equal(await countInvocations(), before)
  })

  it('are charged like requests to the endpoint', async () => {
    const { body } = await invoke(warm.name, { input: { instances: [1] } })

    const entries = await on.api.database.db
      .selectFrom('ledger_line')
      .select('kind')
      .where('task_id', '=', body.task_id)
      .execute()
    assert.deepEqual(new Set(entries.map(({ kind }) => kind)), new Set(['hold', 'capture', 'payout']))
  })

  describe('with an Idempotency-Key', () => {
    const keyed = (headerKey: string, body: object, key?: string) =>
      invoke(
        cold.name,
        { sync: false, ...body },
        { headers: { 'idempotency-key': headerKey }, ...(key && { key }) },
      )

    it('create one invocation for concurrent requests', async () => {
      const key = randomUUID()
      const before = await countInvocations()

      const answers = await Promise.all(
        Array.from({ length: 8 }, () => keyed(key, { input: { instances: [1] } })),
      )

      assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([202]))
      assert.equal(new Set(answers.map(({ body }) => body.invocation_id)).size, 1)
      const replays = answers.filter(({ headers }) => headers['idempotency-replayed'] === 'true')
      assert.equal(replays.length, 7)
      assert.equal(await countInvocations(), before + 1)
    })

    it("answer a repeated request with the invocation's current state", async () => {
      const key = randomUUID()
      const { body } = await keyed(key, { input: { instances: [1] } })
      await on.api.call('POST', `${BUILDER}/tasks/${body.task_id}:cancel`, { key: on.caller.key })

      const again = await keyed(key, { input: { instances: [1] } })

      assert.equal(again.status, 200)
      assert.deepEqual(
        [again.body.invocation_id, again.body.status, again.body.error],
        [body.invocation_id, 'failed', 'cancelled by the caller'],
      )
    })

    it('reject a different body under the same key, and a key that is not a UUID', async () => {
      const key = randomUUID()
      await keyed(key, { input: { instances: [1] } })

      const other = await keyed(key, { input: { instances: [2] } })
      const malformed = await keyed('one', { input: { instances: [1] } })

      assert.deepEqual([other.status, other.body.error.code], [409, 'idempotency_key_reused'])
      assert.deepEqual([malformed.status, malformed.body.detail[0].loc], [422, ['header', 'idempotency-key']])
    })

    it('answer a repeated request while the kill switch refuses new work', async () => {
      const key = randomUUID()
      const { body } = await keyed(key, { input: { instances: [1] } })
      const admin = (action: string) =>
        on.api.call('POST', `/api/v1/admin/killswitch/${action}`, { key: OPERATIONS_KEY })
      await admin('activate?reason=drill')
      try {
        const again = await keyed(key, { input: { instances: [1] } })
        const fresh = await keyed(randomUUID(), { input: { instances: [1] } })

        assert.deepEqual([again.status, again.body.invocation_id], [202, body.invocation_id])
        assert.deepEqual([fresh.status, fresh.body.error.code], [503, 'operator_kill_switch'])
      } finally {
        await admin('deactivate')
      }
    })
  })
})
