import assert from 'node:assert/strict'
import { sql } from 'kysely'
import * as copyRepository from '../../../../../db/repositories/nodes/copies.ts'
import * as warmPinRepository from '../../../../../db/repositories/nodes/warm-pins.ts'
import type { SetScaling } from '../../../../../schemas/scaling.ts'
import { until } from '../../../../support/assertions/until.ts'
import { OPERATIONS_KEY } from '../../../../support/servers/api.ts'
import { ChatApi, startChatNode } from '../../../../support/servers/chat-api.ts'

describe('PUT /endpoints/{endpoint_id}/scaling', function () {
  this.timeout(60_000)
  let chat: ChatApi
  before(async () => {
    chat = await ChatApi.start({ env: { HEARTH_ACCOUNT_COPIES: '5' } })
  })
  after(() => chat[Symbol.asyncDispose]())

  const path = ({ id }: { id: string }) => `/api/builder/v1/endpoints/${id}/scaling`
  const set = (endpoint: { id: string }, body: SetScaling | object, key = chat.caller.key) =>
    chat.api.call('PUT', path(endpoint), { key, body })
  const get = (endpoint: { id: string }, key = chat.caller.key) =>
    chat.api.call('GET', path(endpoint), { key })
  const fault = async (endpoint: { id: string }, body: object) => {
    const { status, body: answer } = await set(endpoint, body)
    assert.equal(status, 422, JSON.stringify(answer))
    return answer.error.details.issues[0].loc.slice(1).join('.')
  }

  it('returns defaults until it is set, and replaces the settings as a whole', async () => {
    const endpoint = await chat.cold({ name: 'plain' })
    const { body: plain } = await get(endpoint)

    assert.deepEqual(
      { ...plain, quota: undefined },
      {
        endpoint_id: endpoint.id,
        name: endpoint.name,
        model_key: endpoint.model_key,
        min: 0,
        effective_min: 0,
        effective_min_by: 'min',
        max: 1,
        target_in_flight: null,
        target_wait_ms: null,
        idle_timeout_s: null,
        schedule: [],
        copies: { wanted: 0, loaded: 0, loading: 0 },
        missing: null,
        changes: [],
        quota: undefined,
      },
    )
    const schedule = [{ cron: '0 8 * * 1-5', timezone: 'Europe/Berlin', min: 0 }]
    const first = await set(endpoint, { max: 2, target_wait_ms: 500, idle_timeout_s: 60, schedule })
    assert.equal(first.status, 200)
    assert.deepEqual([first.body.max, first.body.target_wait_ms, first.body.schedule], [2, 500, schedule])
    assert.deepEqual(first.body.quota, { copies: 5, reserved: 2 })
    assert.deepEqual((await set(endpoint, { idle_timeout_s: 60 })).body.quota, { copies: 5, reserved: 0 })
    const second = await set(endpoint, { target_in_flight: 3 })
    const { max, target_in_flight, target_wait_ms, idle_timeout_s, quota } = second.body
    assert.deepEqual([max, target_in_flight, target_wait_ms, idle_timeout_s], [1, 3, null, null])
    assert.equal(quota.reserved, 0)
    assert.deepEqual((await get(endpoint)).body, second.body)
  })

  it('loads min copies immediately, unloads surplus ones when lowered, and reports what is missing', async () => {
    await using second = await startChatNode(chat.api)
    const nodes = [chat.node, second]
    const endpoint = await chat.cold({ name: 'kept' })
    const loaded = () =>
      nodes.filter(({ parts }) => parts.models.startState(endpoint.model_key) === 'resident')

    const { body } = await set(endpoint, { min: 3, max: 3, idle_timeout_s: 1 })

    assert.deepEqual([body.copies.wanted, body.changes[0].reason], [3, 'at least 3 copies are wanted'])
    assert.match(body.missing, /^no other node that works for this account/)
    await until(() => loaded().length === 2)
    const { status } = await set(endpoint, { min: 1, max: 1, idle_timeout_s: 1 })
    assert.equal(status, 200)
    // The node unloads its copy after its next maintenance round.
    await until(() => loaded().length === 1, 20_000)
    const { db } = chat.api.database
    const rows = () =>
      sql<{ node_id: string }>`select node_id from warm_pin where model_key = ${endpoint.model_key}`.execute(
        db,
      )
    await until(async () => (await rows()).rows.length === 1)
    assert.equal((await chat.chat(endpoint.id)).status, 200)
    assert.deepEqual((await get(endpoint)).body.copies, { wanted: 1, loaded: 1, loading: 0 })
  })

  it('unloads copies beyond a lowered max immediately, even when requests load the only copy', async () => {
    await using second = await startChatNode(chat.api)
    const endpoint = await chat.cold({ name: 'lowered' })
    const loaded = () =>
      [chat.node, second].filter(({ parts }) => parts.models.startState(endpoint.model_key) === 'resident')
    await set(endpoint, { min: 2, max: 2 })
    await until(() => loaded().length === 2)

    const { body } = await set(endpoint, { max: 1 })

    assert.equal(body.copies.wanted, 1)
    assert.deepEqual(body.changes[0].reason, 'at most 1 copy is wanted')
    await until(() => loaded().length === 1, 20_000)
  })

  it('reserves no copies for a paused endpoint, and says so', async () => {
    const endpoint = await chat.cold({ name: 'resting' })
    await set(endpoint, { min: 1, max: 1 })
    await until(async () => (await get(endpoint)).body.copies.loaded === 1)

    const pause = { key: chat.caller.key, body: { status: 'paused' } }
    assert.equal(
      (await chat.api.call('PATCH', `/api/builder/v1/endpoints/${endpoint.id}`, pause)).status,
      200,
    )

    const { body } = await set(endpoint, { min: 1, max: 1 })
    assert.equal(body.copies.wanted, 0)
    assert.deepEqual([body.min, body.effective_min], [1, 0])
    assert.equal(body.missing, 'the endpoint is paused, so no copies are kept for it')
    assert.deepEqual(
      [body.changes[0].from, body.changes[0].to, body.changes[0].reason],
      [1, 0, 'no endpoint that reserves copies is active'],
    )
  })

  it('is not reset by a request without a body', async () => {
    const endpoint = await chat.cold({ name: 'bodiless' })
    await set(endpoint, { max: 1, idle_timeout_s: 7 })

    const { status, body } = await chat.api.call('PUT', path(endpoint), { key: chat.caller.key })

    assert.equal(status, 422)
    assert.match(body.error.message, /^body: Field required/)
    assert.equal((await get(endpoint)).body.idle_timeout_s, 7)
  })

  it("enforces the account's copy quota, even for concurrent changes", async () => {
    const { account_id } = { account_id: chat.caller.accountId }
    const endpoints = await Promise.all([1, 2, 3].map((nr) => chat.cold({ name: `quota-${nr}` })))
    await chat.api.database.db.deleteFrom('endpoint_scaling').execute()

    const answers = await Promise.all(endpoints.map((endpoint) => set(endpoint, { max: 2 })))

    assert.equal(answers.filter(({ status }) => status === 200).length, 2)
    const refused = answers.find(({ status }) => status === 409)!
    assert.match(refused.body.error.message, /may reserve 5 copies, and its other endpoints reserve 4/)
    const raised = await chat.api.call('PATCH', `/api/v1/admin/accounts/${account_id}`, {
      key: OPERATIONS_KEY,
      body: { copy_quota: 6 },
    })
    assert.equal(raised.body.copy_quota, 6)
    const again = await Promise.all(endpoints.map((endpoint) => set(endpoint, { max: 2 })))
    assert.deepEqual(
      again.map(({ status }) => status),
      [200, 200, 200],
    )
  })

  it('leaves database connections to other requests while many settings change', async () => {
    const accounts = await Promise.all(Array.from({ length: 8 }, () => chat.api.account()))
    const endpoints = await Promise.all(
      accounts.map(async (account) => ({
        key: account.key,
        endpoint: await chat.cold({ name: 'many' }, { account_id: account.accountId }),
      })),
    )
    const flood = endpoints.flatMap(({ key, endpoint }) =>
      Array.from({ length: 12 }, () => set(endpoint, { max: 2, idle_timeout_s: 60 }, key)),
    )
    const began = performance.now()

    const { status } = await chat.api.call('GET', '/api/builder/v1/endpoints', { key: chat.caller.key })

    assert.equal(status, 200)
    assert.ok(performance.now() - began < 5_000)
    const statuses = (await Promise.all(flood)).map((answer) => answer.status)
    assert.deepEqual(
      statuses.filter((each) => each !== 200 && each !== 429),
      [],
    )
  })

  it('adds no planner work and few events for endpoints that reserve no copies', async () => {
    const { db } = chat.api.database
    const [free, reserving] = [await chat.cold({ name: 'free' }), await chat.cold({ name: 'reserving' })]
    await db.deleteFrom('endpoint_scaling').execute()
    await set(free, { max: 1, idle_timeout_s: 1 })
    await set(reserving, { max: 2 })
    const planned = await warmPinRepository.listEndpointCopies(db)
    await sql`
      with copied as (
        insert into endpoint (id, account_id, name, visibility, review_status, source, task_type, version_id, model_key,
          runtime_profile, input_schema, output_schema, example_input, example_output)
        select uuidv7(), account_id, name || n, visibility, review_status, source, task_type, version_id, ${reserving.model_key},
          runtime_profile, input_schema, output_schema, example_input, example_output
        from endpoint, generate_series(1, 10000) n where id = ${free.id}
        returning id
      )
      insert into endpoint_scaling (endpoint_id, min_copies, max_copies, schedule, reserved, updated_at)
      select id, 0, 1, '[]', 0, now() from copied`.execute(db)
    const change = { modelKey: reserving.model_key, before: 0, copies: 1, reason: 'requests arrive' }

    await db.transaction().execute((trx) => copyRepository.recordChange(trx, change, new Date()))

    const keys = planned.map(({ model_key }) => model_key)
    assert.deepEqual([keys.includes(free.model_key), keys.includes(reserving.model_key)], [false, true])
    const recorded = await db
      .selectFrom('scaling_change')
      .select('endpoint_id')
      .where('reason', '=', change.reason)
      .where('model_key', '=', reserving.model_key)
      .execute()
    assert.equal(recorded.length, 100)
    assert.ok(recorded.some(({ endpoint_id }) => endpoint_id === reserving.id))
    await sql`delete from endpoint_scaling where reserved = 0`.execute(db)
  })

  it('ignores tasks that are waiting for a paused endpoint', async () => {
    const { db } = chat.api.database
    const endpoint = await chat.cold({ name: 'paused' })
    const waiting = async () =>
      (await copyRepository.readDemand(db, [endpoint.model_key])).get(endpoint.model_key)?.waiting ?? 0
    await chat.api.call('POST', `/api/builder/v1/endpoints/${endpoint.id}/infer:async`, {
      key: chat.caller.key,
      body: { input: { messages: [{ role: 'user', content: 'hi' }] } },
    })
    assert.equal(await waiting(), 1)

    await db.updateTable('endpoint').set({ status: 'paused' }).where('id', '=', endpoint.id).execute()

    assert.equal(await waiting(), 0)
  })

  it('reports the invalid field', async () => {
    const endpoint = await chat.cold({ name: 'faults' })
    const entry = { cron: '0 8 * * *', timezone: 'UTC', min: 1 }

    assert.equal(await fault(endpoint, { min: 2, max: 1 }), 'min')
    assert.equal(await fault(endpoint, { max: 0 }), 'max')
    assert.equal(await fault(endpoint, { copies: 2 }), 'copies')
    assert.equal(await fault(endpoint, { target_in_flight: 1, target_wait_ms: 1 }), 'target_wait_ms')
    assert.equal(await fault(endpoint, { idle_timeout_s: -1 }), 'idle_timeout_s')
    assert.equal(await fault(endpoint, { schedule: [{ ...entry, cron: '99 8 * * *' }] }), 'schedule.0.cron')
    assert.equal(
      await fault(endpoint, { schedule: [entry, { ...entry, timezone: 'X' }] }),
      'schedule.1.timezone',
    )
    assert.equal(await fault(endpoint, { schedule: [{ ...entry, min: 2 }] }), 'schedule.0.min')
    assert.deepEqual((await get(endpoint)).body.schedule, [])
  })

  it('is limited to the owner, and to admins of its account', async () => {
    const endpoint = await chat.cold({ name: 'own' }, { visibility: 'public', review_status: 'approved' })
    const other = await chat.api.account()
    const viewer = await chat.api.call('POST', '/api/builder/v1/keys', {
      key: chat.caller.key,
      body: { name: 'viewer', role: 'viewer' },
    })

    assert.equal((await set(endpoint, { max: 1 }, other.key)).status, 403)
    assert.equal((await get(endpoint, other.key)).status, 403)
    assert.equal((await set(endpoint, { max: 1 }, viewer.body.api_key)).status, 403)
    assert.equal((await get(endpoint, viewer.body.api_key)).status, 200)
  })
})
