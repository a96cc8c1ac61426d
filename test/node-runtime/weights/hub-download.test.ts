import assert from 'node:assert/strict'
import * as modelOrderRepository from '../../../db/repositories/nodes/model-orders.ts'
import type { NodeModel, NodeModelSpec } from '../../../schemas/nodes/node.ts'
import { addHubModel } from '../../support/builders/models/hub-model.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { HUB_TOKEN, startHub, type TestHub } from '../../support/servers/hub-server.ts'
import { startNode, type TestNode } from '../../support/servers/nodes/node.ts'
import { type SignedNode, signedNode } from '../../support/servers/nodes/signed-node.ts'

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

  it("follow the hub's redirects", async () => {
    const { modelKey } = await addHubModel(api, hub, { name: 'plain' })

    await node.parts.models.load(modelKey)

    assert.equal(node.parts.models.startState(modelKey), 'resident')
    assert.equal(blobs().length, 1)
  })

  it('are downloaded once for two models that share them', async () => {
    const from = hub.requests.length
    const twins = await Promise.all([
      addHubModel(api, hub, { name: 'twin', padding: PADDING }),
      addHubModel(api, hub, { name: 'twin', padding: PADDING }),
    ])

    await Promise.all(twins.map(({ modelKey }) => node.parts.models.load(modelKey)))

    assert.equal(blobs(from).length, 1)
  })

  it('resume where the connection broke', async () => {
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

  it('are discarded and downloaded again when their digest is wrong', async () => {
    const from = hub.requests.length
    const { modelKey } = await addHubModel(api, hub, { name: 'corrupt', padding: PADDING })
    hub.faults.corrupt = 1

    await node.parts.models.load(modelKey)

    assert.equal(blobs(from).length, 2)
  })

  it('wait out a rate limit, and report it', async () => {
    const { modelKey } = await addHubModel(api, hub, { name: 'limited', padding: PADDING })
    const reports: NodeModel[] = []
    node.parts.models.onChange((model) => reports.push(model))
    hub.faults.limited = { left: 1, seconds: 1 }

    await node.parts.models.load(modelKey)

    const limited = reports.filter(
      (model) => model.model_key === modelKey && model.rate_limited_s !== undefined,
    )
    assert.equal(limited[0]?.rate_limited_s, 1)
    assert.equal(limited[0]?.state, 'downloading_model')
  })

  it('are proxied by a gateway if the repository is gated, so that the node never holds the token', async () => {
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

  it('are readable, if gated, only by nodes that currently need them', async () => {
    await using guarded = await startApi({
      env: { HEARTH_HUB_ENDPOINT: hub.url, HEARTH_HUB_TOKEN: HUB_TOKEN },
    })
    const { db } = guarded.database
    const { modelKey } = await addHubModel(guarded, hub, { name: 'bound' }, { gated: true })
    const [one, two] = [await signedNode(guarded, 'one'), await signedNode(guarded, 'two')]
    const addressOf = async (node: SignedNode) => {
      await db
        .transaction()
        .execute((trx) => modelOrderRepository.orderModel(trx, { nodeId: node.nodeId, modelKey }))
      const { body } = await node.get<NodeModelSpec>(`/api/v1/nodes/models/${modelKey}`)
      return new URL(String(body.files[0]?.url)).pathname
    }
    const [of1, of2] = [await addressOf(one), await addressOf(two)]
    const read = async (path: string) => (await guarded.call('GET', path)).status
    assert.deepEqual([await read(of1), await read(of2)], [200, 200])

    await db.updateTable('node').set({ status: 'removed' }).where('id', '=', one.nodeId).execute()
    await db.deleteFrom('node_model_order').where('node_id', '=', two.nodeId).execute()
    assert.deepEqual([await read(of1), await read(of2)], [403, 403])
    await db
      .transaction()
      .execute((trx) => modelOrderRepository.orderModel(trx, { nodeId: two.nodeId, modelKey }))
    assert.equal(await read(of2), 200)
    await db.updateTable('node').set({ sharing: 'dedicated' }).where('id', '=', two.nodeId).execute()
    assert.equal(await read(of2), 403, 'the node now works only for another account')
  })
})
