import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import * as jobEndingRepository from '../../../../../db/repositories/training/endings.ts'
import { SOON_MS, until } from '../../../../support/assertions/until.ts'
import { addLlmVersion, versionRef } from '../../../../support/builders/models/merges.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

const BUILDER = '/api/builder/v1'

describe('invocations of operations', () => {
  let api: TestApi
  let accountId: string
  let key: string
  let input: { name: string; base: object; adapters: object[] }
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())
  beforeEach(async () => {
    ;({ accountId, key } = await api.account())
    const base = versionRef(await addLlmVersion(api, accountId, { model: {} }))
    const columns = { adapter: {}, base_model_version_id: base.version_id }
    input = { name: 'merged', base, adapters: [versionRef(await addLlmVersion(api, accountId, columns))] }
  })

  const invoke = (body: object, headers: Record<string, string> = {}, by = key) =>
    api.call('POST', `${BUILDER}/actions/training.merge:invoke`, { key: by, body, headers })
  const read = async (id: string) => (await api.call('GET', `${BUILDER}/invocations/${id}`, { key })).body
  const jobs = async () => (await api.call('GET', `${BUILDER}/training/runs`, { key })).body.runs
  const end = (id: string, status: 'completed' | 'cancelled') =>
    api.database.db
      .transaction()
      .execute((trx) => jobEndingRepository.endRun(trx, id, { status }, new Date()))
  const eventTypes = async (id: string) => {
    const rows = await api.database.db
      .selectFrom('event')
      .select('type')
      .where('resource_id', '=', id)
      .execute()
    return rows.map(({ type }) => type)
  }

  it("create the operation's job without waiting for it", async () => {
    const { status, body } = await invoke({ input })

    assert.equal(status, 202)
    assert.deepEqual(
      [body.slug, body.kind, body.status, body.task_id],
      ['training.merge', 'operation', 'queued', null],
    )
    const job = await api.call('GET', `${BUILDER}/training/runs/${body.job_id}`, { key })
    assert.deepEqual([job.body.job_type, job.body.job_name], ['merge', 'merged'])
  })

  it("accept every field of their route's body", async () => {
    const { status, text } = await invoke({
      input: { ...input, precision: 'bf16', hardware_preference: 'cpu_only' },
    })

    assert.equal(status, 202, text)
  })

  it('end with their job, each with one event', async () => {
    const done = (await invoke({ input })).body
    const stopped = (await invoke({ input })).body

    for (let i = 0; i < 2; i++) await end(done.job_id, 'cancelled')
    await api.database.db
      .updateTable('training_run')
      .set({ status: 'running' })
      .where('id', '=', stopped.job_id)
      .execute()
    await end(stopped.job_id, 'completed')

    const failed = await read(done.invocation_id)
    assert.deepEqual([failed.status, failed.error], ['failed', 'the job was cancelled'])
    assert.deepEqual(await eventTypes(done.invocation_id), ['invocation.failed'])
    assert.deepEqual(await eventTypes(done.job_id), ['training.merge.cancelled'])
    const completed = await read(stopped.invocation_id)
    assert.deepEqual([completed.status, completed.result.job_id], ['completed', stopped.job_id])
    assert.deepEqual(await eventTypes(stopped.invocation_id), ['invocation.completed'])
  })

  it('answer a waiting caller once the job has ended', async () => {
    const pendingAnswer = invoke({ input, sync: true, sync_timeout_s: 20 })
    await until(async () => (await jobs()).length === 1)
    const [{ job_id }] = await jobs()
    await end(job_id, 'cancelled')

    const { status, body } = await pendingAnswer

    assert.deepEqual([status, body.status, body.job_id], [200, 'failed', job_id])
  })

  it('are cancelled when the waiting client disconnects', async () => {
    const leaving = new AbortController()
    const pendingResponse = fetch(`${api.baseUrl}${BUILDER}/actions/training.merge:invoke`, {
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
      body: JSON.stringify({ input, sync: true, sync_timeout_s: 60 }),
      signal: leaving.signal,
    })
    pendingResponse.catch(() => {})
    await until(async () => (await jobs()).length === 1)

    leaving.abort()

    await until(async () => (await jobs())[0].status === 'cancelled', SOON_MS)
  })

  it('report the invalid field by its path in the request', async () => {
    const answers = [
      await invoke({ input: { ...input, name: undefined } }),
      await invoke({ input: { ...input, colour: 'blue' } }),
      await invoke({ input: { ...input, method: 'slerp' } }),
      await invoke({ input: { ...input, adapters: [{ type: 'model_version', version_id: randomUUID() }] } }),
    ]

    assert.deepEqual(
      answers.map(({ status, body }) => [status, body.detail[0].loc.slice(0, 3)]),
      [
        [422, ['body', 'input', 'name']],
        [422, ['body', 'input', 'colour']],
        [422, ['body', 'input', 'adapters']],
        [422, ['body', 'input', 'adapters']],
      ],
    )
    assert.deepEqual(await jobs(), [])
  })

  it('report only one validation error for a large input, however many it has', async () => {
    const unknown = Object.fromEntries(Array.from({ length: 19_000 }, (_, i) => [`member_${i}`, i]))

    const { status, body } = await invoke({ input: { ...input, ...unknown } })

    assert.deepEqual([status, body.detail.length], [422, 1])
  })

  it('create one invocation and one job under an Idempotency-Key', async () => {
    const headers = { 'idempotency-key': randomUUID() }

    const answers = await Promise.all(Array.from({ length: 6 }, () => invoke({ input }, headers)))

    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([202]))
    assert.equal(new Set(answers.map(({ body }) => body.invocation_id)).size, 1)
    assert.equal((await jobs()).length, 1)
  })

  it("require the operation's role", async () => {
    const { status, body } = await invoke({ input }, {}, await api.key(accountId, 'viewer'))

    assert.deepEqual([status, body.error.code], [403, 'forbidden'])
  })

  it('accept only models of their account', async () => {
    const other = await api.account()

    const { status } = await invoke({ input }, {}, other.key)

    assert.equal(status, 422)
  })
})
