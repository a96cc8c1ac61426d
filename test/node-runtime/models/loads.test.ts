import assert from 'node:assert/strict'
import { LoadedModel } from '../../../node-runtime/models/loaded-model.ts'
import { Pins } from '../../../node-runtime/models/pins.ts'
import { reportOf } from '../../../node-runtime/models/report.ts'
import { loadCatalog } from '../../../platform/catalog.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { type FakeStats, startChatNode, FAKE_LLM_SERVER } from '../../support/servers/chat-api.ts'
import { addModel, startNode, type TestNode, until } from '../../support/servers/nodes/node.ts'

const FIRST = { model: 'model', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 1 }
const SLOW_MS = 700

describe('the first request to a language model', function () {
  this.timeout(60_000)
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api?.[Symbol.asyncDispose]())

  /** Starts a node whose model servers receive this request before they count as warm. */
  const startWith = (fake: object) =>
    startChatNode(api, { server: { ...FAKE_LLM_SERVER, warmupInput: { ...FIRST, fake } } })
  async function seenBy({ parts }: TestNode, modelKey: string): Promise<FakeStats> {
    using use = parts.models.use(modelKey)
    assert.ok(use)
    const { body } = await use.server.pool.request({ method: 'GET', path: '/stats' })
    return (await body.json()) as FakeStats
  }

  it('requests a single token in every profile', () => {
    const serving = loadCatalog().profiles.filter(({ task_types }) => task_types.includes('chat'))

    assert.equal(serving.length, 6)
    for (const { profile_id, warmup_input } of serving) {
      assert.equal(warmup_input?.['max_tokens'], 1, profile_id)
      assert.ok(Array.isArray(warmup_input['messages']), profile_id)
    }
  })

  it('is sent once as the profile defines it, and answered before the model is reported warm', async () => {
    await using node = await startWith({ delay_ms: SLOW_MS })
    const key = await addModel(api, { name: 'warming' })
    const heard: { state: string; at: number }[] = []
    node.parts.models.onChange(({ state, warming_up }) =>
      heard.push({ state: warming_up ? 'warming_up' : state, at: performance.now() }),
    )

    const loading = node.parts.models.load(key)
    await until(() => heard.at(-1)?.state === 'warming_up')
    assert.equal(node.parts.models.use(key), undefined)
    assert.equal(api.services.links.placement.count(key).warm, 0)
    await loading

    const [warmingUp, warm] = heard.slice(-2)
    assert.deepEqual([warmingUp?.state, warm?.state], ['warming_up', 'warm'])
    const took = (warm?.at ?? 0) - (warmingUp?.at ?? 0)
    assert.ok(took >= SLOW_MS - 5, `${took} ms`)
    const { requests, last } = await seenBy(node, key)
    assert.deepEqual([requests, JSON.parse(last)], [1, { ...FIRST, fake: { delay_ms: SLOW_MS } }])
  })

  it("keeps a model that can't answer it from becoming warm", async () => {
    await using node = await startWith({ status: 500 })
    const key = await addModel(api, { name: 'mute' })
    const heard: string[] = []
    node.parts.models.onChange(({ state }) => heard.push(state))

    await assert.rejects(node.parts.models.load(key), /its first inference answered 500/)

    assert.ok(!heard.includes('warm'), heard.join())
    assert.equal(node.parts.driver.running.length, 0)
  })
})

describe('the report on many models', () => {
  const many = (count: number, error?: string) =>
    Array.from({ length: count }, (_, i) => {
      const model = new LoadedModel(`model-${i}`, i % 1_000 === 7 ? 'warm' : 'evicted', new Pins())
      model.lastUsed = i
      if (error) model.error = error
      return model
    })

  it('lists the loaded and the most recently used models, in a message that gateways accept', () => {
    for (const [count, error] of [
      [20_000, undefined],
      [900, '€'.repeat(2_000)],
    ] as const) {
      const models = many(count, error)
      const reported = reportOf(models)

      assert.ok(Buffer.byteLength(JSON.stringify(reported)) < 600 * 1024)
      const loaded = models.filter(({ state }) => state === 'warm').map(({ modelKey }) => modelKey)
      const names = reported.map(({ model_key }) => model_key)
      assert.deepEqual(names.slice(0, loaded.length), loaded.toReversed())
      assert.equal(names[loaded.length], `model-${count - 1}`)
      assert.ok(names.length > 50 && names.length <= 5_000, `${names.length} models`)
    }
    assert.deepEqual(
      reportOf(many(3)).map(({ model_key }) => model_key),
      ['model-0', 'model-1', 'model-2'],
    )
  })
})

describe('failed loads', function () {
  this.timeout(60_000)

  it('are retried after doubling delays of at most five minutes; a success resets the delay to a second', () => {
    const model = new LoadedModel('m', 'cold', new Pins())
    const waits = Array.from({ length: 11 }, () => {
      const before = Date.now()
      model.fail('broken')
      return Math.floor((model.retryAt - before) / 1_000)
    })

    assert.deepEqual(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300])
    model.succeed()
    assert.deepEqual([model.retryAt, model.error], [0, undefined])
    const before = Date.now()
    model.fail('broken')
    assert.equal(Math.floor((model.retryAt - before) / 1_000), 1)
  })

  it('are retried by a node after a longer delay each time', async () => {
    await using api = await startApi()
    await using node = await startNode(api)
    const key = await addModel(api, { name: 'broken', broken: true })
    const { models } = node.parts

    for (const waitMs of [1_000, 2_000, 4_000]) {
      const before = Date.now()
      await assert.rejects(models.load(key), /these weights are broken/)
      const retryAt = models.report().find(({ model_key }) => model_key === key)?.retry_at ?? 0
      assert.ok(retryAt - before >= waitMs, `${retryAt - before} ms`)
      assert.ok(retryAt - Date.now() <= waitMs, `${retryAt - Date.now()} ms`)
      await assert.rejects(models.load(key), /next try in [1-4] s/)
      if (waitMs < 4_000) await until(() => Date.now() > retryAt)
    }
  })
})
