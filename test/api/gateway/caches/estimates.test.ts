import assert from 'node:assert/strict'
import type { EndpointRow } from '../../../../db/tables/models.ts'
import { newId } from '../../../../domain/ids.ts'
import { until } from '../../../support/assertions/until.ts'
import { buildEndpoint, buildVersion } from '../../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../../support/servers/api.ts'

const BUILDER = '/api/builder/v1'

describe('load-time estimates for models without measurements', () => {
  let api: TestApi
  let accountId: string
  let key: string
  beforeEach(async () => {
    api = await startApi()
    ;({ accountId, key } = await api.account())
  })
  afterEach(() => api[Symbol.asyncDispose]())

  async function model(
    memory_mb: number,
    runtime_profile: string,
    overrides: object = {},
  ): Promise<EndpointRow> {
    const model_key = `model-${newId()}`
    const version = await buildVersion(api.database.db, accountId, { memory_mb, runtime_profile, model_key })
    return buildEndpoint(api.database.db, accountId, {
      version_id: version.id,
      model_key,
      runtime_profile,
      ...overrides,
    })
  }
  const loaded = ({ model_key }: EndpointRow, start_state: 'cold' | 'cached', mean_ms: number) =>
    api.database.db
      .insertInto('load_time')
      .values({ model_key, start_state, hardware: 'cpu', mean_ms, samples: 1 })
      .execute()
  const latency = async ({ id }: EndpointRow): Promise<number> =>
    (await api.call('GET', `${BUILDER}/endpoints/${id}`, { key })).body.estimated_latency_ms
  const infer = (endpoint: EndpointRow, body: object) =>
    api.call('POST', `${BUILDER}/endpoints/${endpoint.id}/infer`, { key, body: { input: {}, ...body } })

  it('scale the load time of other models of the same kind by model size', async () => {
    await loaded(await model(1_000, 'llm-transformers', { latency_ms: 400 }), 'cold', 20_000)
    await loaded(await model(60, 'tabular', { latency_ms: 3 }), 'cold', 1_500)

    assert.equal(await latency(await model(2_000, 'llm-transformers')), 40_800)
    assert.equal(await latency(await model(60, 'tabular')), 1_503)
    const { body } = await infer(await model(4_000, 'llm-transformers'), { sync: false })
    assert.equal(body.estimated_load_time_s, 80)
    assert.ok(body.sync_latency_ms > 0)
  })

  it("give way to the model's own load time once that is measured", async () => {
    const endpoint = await model(1_000, 'llm-transformers', { latency_ms: 50 })
    await loaded(await model(1_000, 'llm-transformers'), 'cold', 20_000)
    await loaded(endpoint, 'cold', 7_250)

    assert.equal(await latency(endpoint), 7_300)
    assert.equal((await infer(endpoint, { sync: false })).body.estimated_load_time_s, 7.25)
  })

  it("depend on the model's size when no model of its kind has been measured", async () => {
    const [small, large] = [await latency(await model(1, 'ocr')), await latency(await model(14_000, 'ocr'))]

    assert.ok(Number.isInteger(small) && small < 100, `${small}`)
    assert.ok(large > 60_000, `${large}`)
  })

  it('appear in every response to a request for a cold model, with the elapsed time', async () => {
    const endpoint = await model(100, 'tabular')

    const { body } = await infer(endpoint, { sync_timeout_s: 1 })

    assert.deepEqual([body.status, body.model_state], ['queued', 'cold'])
    assert.ok(body.estimated_load_time_s > 0)
    assert.ok(body.sync_latency_ms >= 900)
  })

  it('leave model_state null for a task that is cancelled before it reaches a model', async () => {
    const endpoint = await model(100, 'tabular')
    const pendingAnswer = infer(endpoint, { sync_timeout_s: 60 })
    const taskOf = () =>
      api.database.db
        .selectFrom('task')
        .select('id')
        .where('endpoint_id', '=', endpoint.id)
        .executeTakeFirst()
    await until(async () => (await taskOf()) !== undefined)
    const id = (await taskOf())?.id
    await api.call('POST', `${BUILDER}/tasks/${id}:cancel`, { key })

    const { body } = await pendingAnswer

    assert.deepEqual([body.status, body.model_state], ['failed', null])
    assert.equal((await api.call('GET', `${BUILDER}/tasks/${id}`, { key })).body.model_state, null)
  })
})
