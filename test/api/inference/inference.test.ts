import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { request } from 'undici'
import type { EndpointRow } from '../../../db/tables/models.ts'
import { SOON_MS } from '../../support/assertions/until.ts'
import { buildEndpoint } from '../../support/builders/build-endpoint.ts'
import { startApi } from '../../support/servers/api.ts'
import { InferenceApi } from '../../support/servers/inference-api.ts'
import { addModel, startNode, until } from '../../support/servers/nodes/node.ts'

const BUILDER = '/api/builder/v1'
const PRICE = 1_000

describe('inference over HTTP', () => {
  let on: InferenceApi
  let warm: EndpointRow
  let cold: EndpointRow
  before(async () => {
    on = await InferenceApi.start()
    warm = await on.endpointOver(await on.loadedModel(), { price_micro: PRICE })
    cold = await on.endpointOver(await addModel(on.api, { name: 'never-loaded' }))
  })
  after(() => on?.[Symbol.asyncDispose]())

  it('answers from a loaded model, and the task is readable right away', async () => {
    const { status, body } = await on.infer(warm.id, { input: { instances: [1, 'ä\u0000"'] } })

    assert.equal(status, 200)
    assert.equal(body.status, 'succeeded')
    assert.equal(body.model_state, 'resident')
    assert.deepEqual(body.result, { predictions: [1, 'ä\u0000"'], weights: 'echo' })
    assert.ok(body.sync_latency_ms > 0)
    const read = await on.task(body.task_id)
    assert.equal(read.status, 200)
    assert.deepEqual(read.body.result, body.result)
    assert.equal(read.body.status, 'succeeded')
    assert.equal(read.body.error, null)
    assert.ok(read.body.inference_time_ms > 0 && read.body.completed_at)
  })

  it("accepts the endpoint's name instead of its id", async () => {
    const { body } = await on.infer(warm.name, { input: { instances: [2] } })

    assert.deepEqual(body.result.predictions, [2])
  })

  it('forwards the input exactly as the client wrote it', async () => {
    const raw = `{ "sync" : true, "input":{"instances":[1]}, "input" : {"note":{"input":3}, "instances": [ 1e2, "a\\"}]" ]} }`

    const { status, body } = await on.api.call('POST', `${BUILDER}/endpoints/${warm.id}/infer`, {
      key: on.caller.key,
      raw,
      headers: { 'content-type': 'application/json' },
    })

    assert.equal(status, 200)
    assert.deepEqual(body.result.predictions, [100, 'a"}]'])
  })

  it("rejects an input that violates the endpoint's schema before writing anything", async () => {
    const before = await on.count(warm.id)

    const { status, body } = await on.infer(warm.id, { input: { instances: [true] } })

    assert.equal(status, 422)
    assert.deepEqual(body.detail[0].loc, ['body', 'input', 'instances', 0])
    assert.equal(body.error.code, 'validation_failed')
    assert.equal(await on.count(warm.id), before)
  })

  it("rejects unknown fields of the request, and leaves those of the input to the endpoint's schema", async () => {
    const path = `/api/builder/v1/endpoints/${warm.id}/infer`
    const ask = (route: string, body: object) => on.api.call('POST', route, { key: on.caller.key, body })
    const input = { instances: [1], colour: 'blue' }

    const answers = [
      await ask(path, { input, max_token: 7 }),
      await ask(`${path}:async`, { input, max_token: 7 }),
    ]
    const { status } = await ask(path, { input })

    for (const answer of answers) {
      assert.equal(answer.status, 422)
      assert.deepEqual(answer.body.detail[0].loc, ['body', 'max_token'])
      assert.match(answer.body.detail[0].msg, /^Unknown field/)
    }
    assert.equal(status, 200)
  })

  it('enforces the limits of contract part 8', async () => {
    const input = { instances: [1] }
    const statuses = await Promise.all(
      [
        { sync_timeout_s: 1 },
        { sync_timeout_s: 300 },
        { sync_timeout_s: 0.5 },
        { sync_timeout_s: 301 },
        { max_tokens: 4096, temperature: 2 },
        { max_tokens: 0 },
        { max_tokens: 4097 },
        { temperature: 2.1 },
        { input: 'text' },
      ].map(async (more) => (await on.infer(warm.id, { input, ...more })).status),
    )

    assert.deepEqual(statuses, [200, 200, 422, 422, 200, 422, 422, 422, 422])
  })

  it("fails the task with the model's message when only the model can reject the input", async () => {
    const { status, body } = await on.infer(warm.id, {
      input: { refuse: 'instances[0].age must be a number' },
    })

    assert.equal(status, 200)
    assert.equal(body.status, 'failed')
    assert.equal(body.message, 'instances[0].age must be a number')
    assert.equal(body.error, body.message)
    const read = await on.task(body.task_id)
    assert.equal(read.body.error, 'instances[0].age must be a number')
    const entries = await on.api.database.db
      .selectFrom('ledger_line')
      .select(['kind', 'amount_micro'])
      .where('task_id', '=', body.task_id)
      .execute()
    assert.deepEqual(new Set(entries.map(({ kind }) => kind)), new Set(['hold', 'refund']))
  })

  it("pays the node's owner for a priced request", async () => {
    const { body } = await on.infer(warm.id, { input: { instances: [1] } })

    const payout = await on.api.database.db
      .selectFrom('ledger_line')
      .select('amount_micro')
      .where('task_id', '=', body.task_id)
      .where('purse', '=', `owner:${on.node.parts.identity.accountId}`)
      .executeTakeFirstOrThrow()
    assert.equal(payout.amount_micro, 800)
  })

  it('answers `running` when a loaded model is slow, and still completes the task', async () => {
    const { status, body } = await on.infer(warm.id, { input: { wait_s: 3 }, sync_timeout_s: 1 })

    assert.equal(status, 200)
    assert.equal(body.status, 'running')
    assert.match(body.note, new RegExp(body.task_id))
    assert.equal((await on.task(body.task_id)).body.status, 'running')
    await until(async () => (await on.task(body.task_id)).body.status === 'succeeded')
    assert.deepEqual((await on.task(body.task_id)).body.result, { waited_s: 3 })
  })

  it('stops a running request when its task is cancelled, and refunds it', async () => {
    const { body } = await on.infer(warm.id, { input: { wait_s: 30 }, sync_timeout_s: 1 })

    const cancelled = await on.cancel(body.task_id)

    assert.deepEqual([cancelled.status, cancelled.body.status], [200, 'failed'])
    await on.inFlight(0, SOON_MS)
    const read = await on.task(body.task_id)
    assert.deepEqual([read.body.status, read.body.error], ['failed', 'cancelled by the caller'])
    const again = await on.cancel(body.task_id)
    assert.equal(again.status, 409)
  })

  it('stops the model when the client disconnects, and writes no row', async () => {
    const before = await on.count(warm.id)
    const leaving = new AbortController()
    const pendingResponse = request(`${on.api.baseUrl}${BUILDER}/endpoints/${warm.id}/infer`, {
      method: 'POST',
      headers: { 'x-api-key': on.caller.key, 'content-type': 'application/json' },
      body: JSON.stringify({ input: { wait_s: 20 } }),
      signal: leaving.signal,
    })
    pendingResponse.catch(() => {})
    await on.inFlight(1)

    leaving.abort()

    await on.inFlight(0, SOON_MS)
    assert.equal(await on.count(warm.id), before)
  })

  /**
   * Starts a slow request and disconnects while the row of the running task is being written; returns the row once it
   * satisfies `done`.
   */
  async function leaveAsItTurnsRunning(done: string): Promise<{ id: string; error: string | null }> {
    const { db } = on.api.database
    const before = await on.count(warm.id)
    const leaving = new AbortController()
    await db.transaction().execute(async (trx) => {
      // The row can't be written before the client has disconnected.
      await sql`lock table task in share row exclusive mode`.execute(trx)
      const pendingResponse = request(`${on.api.baseUrl}${BUILDER}/endpoints/${warm.id}/infer`, {
        method: 'POST',
        headers: { 'x-api-key': on.caller.key, 'content-type': 'application/json' },
        body: JSON.stringify({ input: { wait_s: 20 }, sync_timeout_s: 1 }),
        signal: leaving.signal,
      })
      pendingResponse.catch(() => {})
      await until(async () => {
        const { rows } = await sql`select 1 from pg_locks join pg_database d on d.oid = database
          where not granted and d.datname = current_database()`.execute(db)
        return rows.length > 0
      })
      leaving.abort()
      await on.inFlight(0, SOON_MS)
    })
    const last = () =>
      db
        .selectFrom('task')
        .select(['id', 'status', 'error'])
        .where('endpoint_id', '=', warm.id)
        .orderBy('id', 'desc')
        .executeTakeFirstOrThrow()
    await until(async () => (await on.count(warm.id)) > before && (await last()).status === done)
    return last()
  }
  const isPromised = async (id: string) => {
    const { rows } = await sql`select 1 from workflow_start where workflow_id = ${`task/${id}`}`.execute(
      on.api.database.db,
    )
    return rows.length > 0
  }

  it('cancels a task that has just become `running` when its client disconnects before receiving the id', async () => {
    const { id, error } = await leaveAsItTurnsRunning('failed')

    assert.equal(error, 'the caller disconnected before the result')
    assert.equal(await isPromised(id), false)
  })

  it('hands an abandoned running task to a workflow when it cannot be cancelled, once the database allows it', async () => {
    const { db } = on.api.database
    const never = {
      gone: `error <> 'the caller disconnected before the result'`,
      queued: `status <> 'queued'`,
    }
    for (const [name, check] of Object.entries(never))
      await sql.raw(`alter table task add constraint ${name} check (${check}) not valid`).execute(db)
    const allow = (name: string) => sql.raw(`alter table task drop constraint if exists ${name}`).execute(db)
    try {
      const { id } = await leaveAsItTurnsRunning('running')
      await sleep(200)
      await allow('queued')
      await until(() => isPromised(id))
    } finally {
      await Promise.all(Object.keys(never).map(allow))
    }
  })

  it('queues a task for a cold model, and answers `queued` when sync_timeout_s elapses', async () => {
    const { status, body } = await on.infer(cold.id, { input: { instances: [1] }, sync_timeout_s: 1 })

    assert.equal(status, 200)
    assert.equal(body.status, 'queued')
    assert.equal(body.model_state, 'cold')
    assert.ok(body.estimated_load_time_s > 0)
    assert.match(body.note, /Poll GET/)
    assert.equal((await on.task(body.task_id)).body.status, 'queued')
    const start = await on.api.database.db
      .selectFrom('workflow_start')
      .selectAll()
      .where('workflow_id', '=', `task/${body.task_id}`)
      .executeTakeFirstOrThrow()
    assert.equal(start.workflow, 'coldInference')
    assert.deepEqual(start.args, [{ taskId: body.task_id }])
  })

  it('answers 202 to an async request immediately, and 200 `queued` with sync false', async () => {
    const accepted = await on.api.call('POST', `${BUILDER}/endpoints/${warm.id}/infer:async`, {
      key: on.caller.key,
      body: { input: { instances: [1] } },
    })
    const queued = await on.infer(warm.id, { input: { instances: [1] }, sync: false })

    assert.equal(accepted.status, 202)
    assert.deepEqual(Object.keys(accepted.body).toSorted(), ['model_state', 'note', 'status', 'task_id'])
    assert.deepEqual([accepted.body.status, accepted.body.model_state], ['queued', 'resident'])
    assert.deepEqual([queued.status, queued.body.status], [200, 'queued'])
  })

  it('fails a queued task when its client disconnects before receiving the id', async () => {
    const leaving = new AbortController()
    const before = await on.count(cold.id)
    const pendingResponse = request(`${on.api.baseUrl}${BUILDER}/endpoints/${cold.id}/infer`, {
      method: 'POST',
      headers: { 'x-api-key': on.caller.key, 'content-type': 'application/json' },
      body: JSON.stringify({ input: { instances: [7] } }),
      signal: leaving.signal,
    })
    pendingResponse.catch(() => {})
    await until(async () => (await on.count(cold.id)) > before)

    leaving.abort()

    await until(async () => {
      const last = await on.api.database.db
        .selectFrom('task')
        .select('status')
        .where('endpoint_id', '=', cold.id)
        .orderBy('id', 'desc')
        .executeTakeFirstOrThrow()
      return last.status === 'failed'
    }, 2_000)
  })

  it('retries on another node when the node is lost during the request', async () => {
    await using second = await startNode(on.api)
    await second.parts.models.load(warm.model_key)
    await until(() => on.api.services.links.placement.count(warm.model_key).warm === 2)
    const busy = () =>
      [on.node, second].find(({ parts }) => parts.models.report().some(({ in_flight }) => in_flight === 1))
    const pendingAnswer = on.infer(warm.id, { input: { wait_s: 1 } })
    await until(() => busy() !== undefined)
    const first = busy()!

    on.api.services.links.disconnect(first.nodeId, 'a test')

    const { body } = await pendingAnswer
    assert.deepEqual([body.status, body.result], ['succeeded', { waited_s: 1 }])
    const { node_id } = await on.api.database.db
      .selectFrom('task')
      .select('node_id')
      .where('id', '=', body.task_id)
      .executeTakeFirstOrThrow()
    assert.notEqual(node_id, first.nodeId)
  })
})

describe('infer without a node', () => {
  it('reports after the timeout that no node is connected, or that no connected node works for the account', async () => {
    await using api = await startApi()
    const { accountId, key } = await api.account()
    const { db } = api.database
    const model_key = await addModel(api, { name: 'nowhere' })
    const version = await db.selectFrom('model_version').select('id').executeTakeFirstOrThrow()
    const { id } = await buildEndpoint(db, accountId, { version_id: version.id, model_key })
    const ask = () =>
      api.call('POST', `${BUILDER}/endpoints/${id}/infer`, {
        key,
        body: { input: { instances: [1] }, sync_timeout_s: 1 },
      })

    const alone = await ask()
    await using _node = await startNode(api, { sharing: 'dedicated' })
    await until(() => api.services.links.placement.snapshots().length === 1)
    const ofOthers = await ask()

    assert.deepEqual([alone.status, alone.body.status], [200, 'queued'])
    assert.match(alone.body.message, /^No node can take the task now: no node is connected\. It waits/)
    assert.match(ofOthers.body.message, /^No node can take the task now: no node that works for this account/)
  })
})
