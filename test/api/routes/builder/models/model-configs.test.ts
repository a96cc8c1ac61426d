import assert from 'node:assert/strict'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

describe('model configs', () => {
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())
  const configs = '/api/builder/v1/training/model-configs'

  it('are listed without a key, by framework and category (2.5)', async () => {
    const all = await api.call('GET', configs)
    const ids = all.body.model_configs.map((one: { model_id: string }) => one.model_id)
    assert.ok(ids.includes('tabular-regression'))
    const series = await api.call('GET', `${configs}?category=time_series`)
    assert.deepEqual(
      series.body.model_configs.map((one: { model_id: string }) => one.model_id),
      ['time-series-forecast'],
    )
    const lightgbm = await api.call('GET', `${configs}?framework=lightgbm&active_only=false`)
    assert.ok(lightgbm.body.model_configs.length > 0)
    assert.deepEqual((await api.call('GET', `${configs}?framework=none`)).body, { model_configs: [] })
  })

  it('list their hyperparameters with type, default and limits', async () => {
    const detail = await api.call('GET', `${configs}/tabular-regression`)
    const epochs = detail.body.user_configurable_params.find((one: { name: string }) => one.name === 'epochs')
    assert.equal(epochs.default, 100)
    const { body } = await api.call('GET', `${configs}/tabular-regression/schema`)
    assert.equal(body.model_id, 'tabular-regression')
    assert.equal(body.schema.properties.epochs.minimum, 1)
    const unknown = await api.call('GET', `${configs}/no-such`)
    assert.equal(unknown.status, 404)
    assert.match(unknown.body.error.message, /no-such; there are .*tabular-regression.* lists them/)
    assert.equal((await api.call('GET', `${configs}/no-such/schema`)).status, 404)
  })
})
