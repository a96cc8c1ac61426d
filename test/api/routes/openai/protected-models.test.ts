import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import { until } from '../../../support/assertions/until.ts'
import { loadPromised } from '../../../support/builders/cohorts/promised-loads.ts'
import { startApi, type TestApi } from '../../../support/servers/api.ts'
import { ChatApi, startChatNode } from '../../../support/servers/chat-api.ts'

describe('a chat whose model needs the memory of a recently loaded one', function () {
  this.timeout(60_000)
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())

  /** Starts a node with memory for one model. */
  const open = async () => new ChatApi(api, await startChatNode(api, { memoryMb: 90 }), await api.account())

  /** Loads a model slowly and returns the duration, for which the node then protects the model. */
  async function loadSlowly(chat: ChatApi, load_s: number): Promise<number> {
    const slow = await chat.cold({ name: 'slow', load_s })
    const startedAt = performance.now()
    await chat.node.parts.models.load(slow.model_key)
    const loadMs = performance.now() - startedAt
    await until(() => api.services.links.placement.count(slow.model_key).warm === 1)
    return loadMs
  }

  /** Creates an endpoint whose model is recorded to load in a given time. */
  async function measured(chat: ChatApi, meanMs: number, load_s = 0): Promise<EndpointRow> {
    const endpoint = await chat.cold({ name: 'fast', load_s })
    for (const state of ['cold', 'cached'] as const) await chat.measured(endpoint, state, meanMs)
    return endpoint
  }

  /** Returns the number of recorded loads of a model by start state. */
  async function samples({ model_key }: EndpointRow): Promise<number[]> {
    const { db } = api.database
    const rows = await db.selectFrom('load_time').selectAll().where('model_key', '=', model_key).execute()
    return rows.map((row) => row.samples)
  }

  const shown = ({ node }: ChatApi, { model_key }: EndpointRow) =>
    api.services.links.placement.model(node.nodeId, model_key)

  it('counts the protected time neither as waiting nor as loading if it is shorter than the maximum wait', async () => {
    const chat = await open()
    await using _node = chat.node
    await using _worker = loadPromised(chat)
    const protectedMs = await loadSlowly(chat, 3)
    // The wait is below the maximum, but the wait and the load together are not.
    const meanMs = protectedMs / 1.5
    const endpoint = await measured(chat, meanMs, 2)
    const startedAt = performance.now()

    const pendingAnswer = chat.chat(endpoint.id)
    await until(() => shown(chat, endpoint)?.memory_in_ms !== undefined)
    assert.equal(shown(chat, endpoint)?.state, 'loading_model')
    const { status, text } = await pendingAnswer

    assert.equal(status, 200, text)
    assert.ok(performance.now() - startedAt > 1.5 * meanMs)
    assert.ok(chat.node.parts.models.delayMs(endpoint.model_key) > 1_000)
    assert.equal(shown(chat, endpoint)?.memory_in_ms, undefined)
    // A load is recorded shortly after its requests have been woken.
    await sleep(500)
    assert.deepEqual(await samples(endpoint), [1, 1])
  })

  it('gets an immediate 503 with the remaining protected time if that exceeds the maximum wait, while the load continues', async () => {
    const chat = await open()
    await using _node = chat.node
    await using worker = loadPromised(chat)
    const protectedMs = await loadSlowly(chat, 6)
    const endpoint = await measured(chat, 100)
    const startedAt = performance.now()

    const refused = await Promise.all([chat.chat(endpoint.id), chat.chat(endpoint.id, { stream: true })])

    assert.ok(performance.now() - startedAt < 1_900, 'the ceiling is 2 s')
    for (const { status, headers, body } of refused) {
      assert.equal(status, 503)
      assert.equal(body.error.code, 'model_cold')
      assert.match(body.error.message, /has just loaded other models and cannot evict them for \d+ s/)
      const seconds = Number(headers['retry-after'])
      assert.ok(seconds >= 2 && seconds <= Math.ceil(protectedMs / 1_000), `${seconds} s`)
    }
    await until(() => api.services.links.placement.count(endpoint.model_key).warm === 1, 20_000)
    assert.ok(worker.loads.includes(endpoint.model_key))
    assert.equal((await chat.chat(endpoint.id)).status, 200)
  })
})
