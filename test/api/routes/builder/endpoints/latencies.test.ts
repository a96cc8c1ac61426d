import assert from 'node:assert/strict'
import * as usageRepository from '../../../../../db/repositories/platform/usage.ts'
import type { EndpointRow } from '../../../../../db/tables/models.ts'
import { buildEndpoint } from '../../../../support/builders/build-endpoint.ts'
import { InferenceApi } from '../../../../support/servers/inference-api.ts'
import { addModel } from '../../../../support/servers/nodes/node.ts'

const WAIT_MS = 300

describe("an endpoint's estimated latency (2.8)", () => {
  let on: InferenceApi
  before(async () => {
    on = await InferenceApi.start()
  })
  after(() => on?.[Symbol.asyncDispose]())

  const estimate = async ({ id }: EndpointRow): Promise<number> => {
    const { body } = await on.api.call('GET', `/api/builder/v1/endpoints/${id}`, { key: on.caller.key })
    return body.estimated_latency_ms
  }
  /** Adds the total duration of an endpoint's inferences, as the journal does. */
  const took = ({ id, account_id }: EndpointRow, succeeded: number, inference_ms: number) =>
    on.api.database.db
      .insertInto('usage_delta')
      .values({ account_id, endpoint_id: id, enqueued: succeeded, succeeded, inference_ms })
      .execute()

  it('is based on its successful inferences once there are any', async () => {
    const endpoint = await on.endpointOver(await on.loadedModel())
    const unmeasured = await estimate(endpoint)

    await on.infer(endpoint.id, { input: { instances: [1], refuse: 'no' } })
    await usageRepository.foldUsage(on.api.database.db)
    const failed = await estimate(endpoint)
    await Promise.all([1, 2].map(() => on.infer(endpoint.id, { input: { wait_s: WAIT_MS / 1_000 } })))
    await usageRepository.foldUsage(on.api.database.db)

    assert.equal(failed, unmeasured)
    assert.ok(unmeasured < WAIT_MS && (await estimate(endpoint)) >= WAIT_MS)
  })

  it('follows later inferences, weighted by their number', async () => {
    const { db } = on.api.database
    const endpoint = await buildEndpoint(db, on.caller.accountId, { model_key: await on.loadedModel() })
    await took(endpoint, 1, 1_000)
    await usageRepository.foldUsage(db)
    assert.equal(await estimate(endpoint), 1_000)

    await took(endpoint, 10, 10 * 2_000)
    await usageRepository.foldUsage(db)
    assert.equal(await estimate(endpoint), 1_100)

    await took(endpoint, 200, 200 * 400)
    await usageRepository.foldUsage(db)
    await usageRepository.foldUsage(db)
    assert.equal(await estimate(endpoint), 400)
  })

  it('ignores counts without a duration, such as those that older gateways append', async () => {
    const { db } = on.api.database
    const endpoint = await buildEndpoint(db, on.caller.accountId, { model_key: await on.loadedModel() })
    const unmeasured = await estimate(endpoint)
    await took(endpoint, 50, 0)
    await usageRepository.foldUsage(db)
    assert.equal(await estimate(endpoint), unmeasured)

    await took(endpoint, 50, 0)
    await took(endpoint, 1, 1_000)
    await usageRepository.foldUsage(db)
    assert.equal(await estimate(endpoint), 1_000)
  })

  it('adds the measured load time while the model is not loaded', async () => {
    const { db } = on.api.database
    const model_key = await addModel(on.api, { name: 'cold' })
    const endpoint = await on.endpointOver(model_key)
    await took(endpoint, 1, 500)
    await usageRepository.foldUsage(db)
    await db
      .insertInto('load_time')
      .values({ model_key, start_state: 'cold', hardware: 'cpu', mean_ms: 7_000, samples: 1 })
      .execute()

    assert.equal(await estimate(endpoint), 7_500)
  })
})
