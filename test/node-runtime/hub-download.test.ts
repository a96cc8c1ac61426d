import assert from 'node:assert/strict'
import type { NodeModel } from '../../schemas/node.ts'
import { startApi, type TestApi } from '../support/api.ts'
import { addHubModel } from '../support/hub-model.ts'
import { HUB_TOKEN, startHub, type TestHub } from '../support/hub-server.ts'
import { startNode, type TestNode } from '../support/node.ts'

const PADDING = 'x'.repeat(200_000)

describe('weights from the hub', () => {
  let hub: TestHub
  let api: TestApi
  let node: TestNode
  before(async () => {
    hub = await startHub()
    api = await startApi({ env: { HEARTH_HUB_ENDPOINT: hub.url } })
    node = await startNode(api)
  })
  after(async () => {
    await node[Symbol.asyncDispose]()
    await api[Symbol.asyncDispose]()
    await hub[Symbol.asyncDispose]()
  })

  const blobs = (from = 0): string[] =>
    hub.requests
      .slice(from)
      .map(({ line }) => line)
      .filter((line) => line.includes('/cdn/'))

  it('come through the redirects of the hub', async () => {
    const { modelKey } = await addHubModel(api, hub, { name: 'plain' })

    await node.parts.models.load(modelKey)

    assert.equal(node.parts.models.startState(modelKey), 'resident')
    assert.equal(blobs().length, 1)
  })

  it('are fetched once for two models that share them', async () => {
    const from = hub.requests.length
    const twins = await Promise.all([
      addHubModel(api, hub, { name: 'twin', padding: PADDING }),
      addHubModel(api, hub, { name: 'twin', padding: PADDING }),
    ])

    await Promise.all(twins.map(({ modelKey }) => node.parts.models.load(modelKey)))

    assert.equal(blobs(from).length, 1)
  })

  it('go on where the line broke', async () => {
    const from = hub.requests.length
    const { modelKey } = await addHubModel(api, hub, { name: 'cut', padding: PADDING })
    hub.faults.cut = 1

    await node.parts.models.load(modelKey)

    const ranges = hub.requests
      .slice(from)
      .filter(({ line }) => line.includes('/cdn/'))
      .map(({ headers }) => headers.range)
    assert.equal(ranges.length, 2)
    assert.match(ranges[1] ?? '', /^bytes=[1-9]\d*-$/)
  })

  it('are thrown away and fetched again when their digest is wrong', async () => {
    const from = hub.requests.length
    const { modelKey } = await addHubModel(api, hub, { name: 'corrupt', padding: PADDING })
    hub.faults.corrupt = 1

    await node.parts.models.load(modelKey)

    assert.equal(blobs(from).length, 2)
  })

  it('wait out a rate limit, and say so', async () => {
    const { modelKey } = await addHubModel(api, hub, { name: 'limited', padding: PADDING })
    const told: NodeModel[] = []
    node.parts.models.onChange((model) => told.push(model))
    hub.faults.limited = { left: 1, seconds: 1 }

    await node.parts.models.load(modelKey)

    const limited = told.filter((model) => model.model_key === modelKey && model.rate_limited_s !== undefined)
    assert.equal(limited[0]?.rate_limited_s, 1)
    assert.equal(limited[0]?.state, 'downloading_model')
  })

  it('of a gated repository come through a gateway, so that the node never holds the token', async () => {
    await using guarded = await startApi({
      env: { HEARTH_HUB_ENDPOINT: hub.url, HEARTH_HUB_TOKEN: HUB_TOKEN },
    })
    await using other = await startNode(guarded)
    const { modelKey } = await addHubModel(guarded, hub, { name: 'gated', padding: PADDING }, { gated: true })
    const spec = await other.parts.control.modelSpec(modelKey)

    await other.parts.models.load(modelKey)

    assert.ok(spec.files.every(({ url }) => url.startsWith(`${guarded.baseUrl}/api/v1/hub-files/`)))
    assert.doesNotMatch(JSON.stringify(spec), new RegExp(HUB_TOKEN))
    const forged = await guarded.call('GET', '/api/v1/hub-files/AAAA')
    assert.equal(forged.status, 403)
  })
})
