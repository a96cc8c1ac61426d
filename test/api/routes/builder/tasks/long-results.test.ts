import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { settlementOf } from '../../../../../db/repositories/tasks/tasks.ts'
import { settleTasks } from '../../../../../db/repositories/tasks/writes.ts'
import { newId } from '../../../../../domain/ids.ts'
import { buildHeldTask } from '../../../../support/builders/build-endpoint.ts'
import type { TestApi } from '../../../../support/servers/api.ts'
import { InferenceApi } from '../../../../support/servers/inference-api.ts'
import { addModel, until } from '../../../../support/servers/nodes/node.ts'

const BUILDER = '/api/builder/v1'
const LONG_BYTES = 4 * 1024 * 1024
/** The pause that a result of this length requires. */
const REST_MS = LONG_BYTES / (8 * 1024)

describe('a long result', () => {
  let on: InferenceApi
  let api: TestApi
  let caller: { accountId: string; key: string }
  before(async () => {
    on = await InferenceApi.start({ env: { HEARTH_RATE_LIMIT: '0' } })
    ;({ api, caller } = on)
  })
  after(() => on?.[Symbol.asyncDispose]())

  const ended = (result: object) =>
    buildHeldTask(api.database.db, caller.accountId, {
      status: 'succeeded',
      result: Buffer.from(JSON.stringify(result)),
    })
  async function read(path: string): Promise<number> {
    const { status, text } = await api.call('GET', `${BUILDER}${path}`, { key: caller.key })
    assert.equal(status, 200, text.slice(0, 200))
    return text.length
  }

  it('is returned for its own task when many results are read concurrently', async () => {
    const other = await api.account()
    const lengths = [0, 100, 10_000, 100_000, 300_000]
    const tasks = await Promise.all(lengths.map((length) => ended({ text: 'x'.repeat(length) })))
    const indexes = Array.from({ length: 60 }, (_, i) => i % lengths.length)

    const answers = await Promise.all(
      indexes.map((i) => api.call('GET', `${BUILDER}/tasks/${tasks[i]}`, { key: caller.key })),
    )
    const refused = await Promise.all(
      indexes.map((i) => api.call('GET', `${BUILDER}/tasks/${tasks[i]}`, { key: other.key })),
    )

    assert.deepEqual(
      answers.map(({ body }) => body.result.text.length),
      indexes.map((i) => lengths[i]),
    )
    assert.deepEqual([...new Set(refused.map(({ status }) => status))], [404])
  })

  it('is found by every spelling of the task id, while an invalid id fails only its own request', async () => {
    const task = await ended({ text: 'x' })
    const spellings = [task, task.toUpperCase(), `urn:uuid:${task}`, 'x', task]

    const answers = await Promise.all(
      spellings.map((id) => api.call('GET', `${BUILDER}/tasks/${id}`, { key: caller.key })),
    )

    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200, 422, 422, 200],
    )
  })

  it("is read in turns per account, while the account's other tasks are read immediately", async () => {
    const [long, short] = [await ended({ text: 'x'.repeat(LONG_BYTES) }), await ended({ text: 'x' })]
    const invocation = newId()
    await api.database.db
      .insertInto('invocation')
      .values({
        id: invocation,
        account_id: caller.accountId,
        slug: 'a',
        kind: 'trained_model',
        task_id: long,
        created_at: new Date(),
      })
      .execute()
    const began = performance.now()
    const since = () => performance.now() - began

    const turns = Promise.all(
      [`/tasks/${long}`, `/invocations/${invocation}`, `/tasks/${long}`].map(async (path) => {
        assert.ok((await read(path)) > LONG_BYTES)
        return since()
      }),
    )
    const direct = Promise.all(
      Array.from({ length: 20 }, async () => {
        await read(`/tasks/${short}`)
        return since()
      }),
    )
    const ends = await turns
    const [first, last] = [Math.min(...ends), Math.max(...ends)]
    const others = Math.max(...(await direct))

    assert.ok(last - first > REST_MS, `all three were read within ${last - first} ms`)
    assert.ok(others < last, `${others} ms, ${last} ms`)
  })

  it('from a loaded model is parsed in turns per account', async () => {
    const endpoint = await on.endpointOver(await on.loadedModel())
    const instances = Array.from({ length: 400_000 }, (_, i) => i + 1_000_000)
    const ends = await Promise.all(
      Array.from({ length: 2 }, async () => {
        const { status, text } = await on.infer(endpoint.id, { input: { instances } })
        assert.equal(status, 200, text.slice(0, 200))
        return { at: performance.now(), bytes: text.length }
      }),
    )

    const [one, other] = ends.toSorted((a, b) => a.at - b.at)
    assert.ok(one && other && one.bytes > 2 << 20, JSON.stringify(ends))
    // The request bodies took turns as well; if the answers didn't, the second one would follow soon after the first.
    assert.ok(other.at - one.at > one.bytes / (8 * 1024) / 2, JSON.stringify(ends))
  })

  it('from a model that no node has loaded is read in turns per account', async () => {
    const { db } = api.database
    const endpoint = await on.endpointOver(await addModel(api, { name: 'away' }))
    const answers = Array.from({ length: 2 }, async () => {
      const { text } = await on.infer(endpoint.id, { input: { instances: [1] }, sync_timeout_s: 60 })
      return { at: performance.now(), bytes: text.length }
    })
    await until(async () => (await on.count(endpoint.id)) === 2)
    const tasks = await db.selectFrom('task').selectAll().where('endpoint_id', '=', endpoint.id).execute()

    const result = Buffer.from(JSON.stringify({ text: 'x'.repeat(LONG_BYTES) }))
    const outcome = { status: 'succeeded', result, inferenceTimeMs: 1, modelState: 'cold' } as const
    await settleTasks(
      db,
      tasks.map((task) => settlementOf(task, outcome, { now: new Date() })),
    )
    const [one, other] = (await Promise.all(answers)).toSorted((a, b) => a.at - b.at)

    assert.ok(
      one && other && one.bytes > LONG_BYTES && other.bytes > LONG_BYTES,
      `${one?.bytes}, ${other?.bytes}`,
    )
    assert.ok(
      other.at - one.at > REST_MS / 2,
      `the second answer came ${other.at - one.at} ms after the first`,
    )
  })

  const get = (id: string) => fetch(urlOf(id), { headers: { 'x-api-key': caller.key } })
  const urlOf = (id: string) => new URL(`${BUILDER}/tasks/${id}`, api.baseUrl)

  it('is sent as stored, without being parsed', async () => {
    const result = `{ "values": [${'1.50,'.repeat(100_000)} 2e0] }`
    const id = await buildHeldTask(api.database.db, caller.accountId, {
      status: 'succeeded',
      result: Buffer.from(result),
    })

    const text = await (await get(id)).text()

    assert.ok(text.includes(`"result":${result}`))
    assert.equal((JSON.parse(text) as { status: string }).status, 'succeeded')
  })

  it('is also read in turns for repeated invocations', async () => {
    const endpoint = await on.endpointOver(await on.loadedModel())
    const key = newId()
    const invoke = async () => {
      const { status, body } = await api.call('POST', `${BUILDER}/actions/${endpoint.name}:invoke`, {
        key: caller.key,
        headers: { 'idempotency-key': key },
        body: { input: { instances: [1] }, sync: false },
      })
      assert.ok(status < 300, JSON.stringify(body).slice(0, 200))
      return { at: performance.now(), taskId: (body as { task_id: string }).task_id }
    }
    const { taskId } = await invoke()
    await api.database.db
      .updateTable('task')
      .set({ status: 'succeeded', result: Buffer.from(JSON.stringify({ text: 'x'.repeat(LONG_BYTES) })) })
      .where('id', '=', taskId)
      .execute()

    const ends = (await Promise.all([invoke(), invoke(), invoke()])).map(({ at }) => at)

    assert.ok(Math.max(...ends) - Math.min(...ends) > REST_MS, ends.join())
  })

  it('is in memory once per account, until its client has read it or disconnected', async () => {
    const id = await ended({ text: 'x'.repeat(4 * LONG_BYTES) })
    const unread = request(urlOf(id), { headers: { 'x-api-key': caller.key }, agent: false }).end()
    const [first] = (await once(unread, 'response')) as [IncomingMessage]
    assert.equal(first.statusCode, 200)
    let isAnswered = false
    const second = get(id).then((response) => {
      isAnswered = true
      return response.arrayBuffer()
    })

    await sleep(1_000)
    assert.ok(!isAnswered)
    assert.ok((await read(`/tasks/${await ended({ text: 'x' })}`)) > 0)
    unread.destroy()

    assert.ok((await second).byteLength > 4 * LONG_BYTES)
  })
})
