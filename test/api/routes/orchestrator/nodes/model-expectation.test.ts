import assert from 'node:assert/strict'
import * as modelOrderRepository from '../../../../../db/repositories/nodes/model-orders.ts'
import {
  addLlmVersion,
  createMerge,
  type NewVersion,
  versionRef,
} from '../../../../support/builders/models/merges.ts'
import { createRun, readyDataset } from '../../../../support/builders/training.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'
import { type SignedNode, signedNode } from '../../../../support/servers/nodes/signed-node.ts'

describe("the reference for a version's logits", () => {
  let api: TestApi
  let node: SignedNode
  let accountId: string
  let key: string

  before(async () => {
    api = await startApi()
    node = await signedNode(api)
  })
  after(() => api[Symbol.asyncDispose]())
  beforeEach(async () => {
    ;({ accountId, key } = await api.account())
  })

  async function add(version: NewVersion): Promise<{ id: string; key: string }> {
    const id = await addLlmVersion(api, accountId, version)
    return { id, key: `llm-${id.slice(-12)}` }
  }
  async function ingredients(modelKey: string): Promise<unknown[]> {
    const { nodeId } = node
    const path = `/api/v1/nodes/models/${modelKey}/expectation`
    await api.database.db
      .transaction()
      .execute((trx) => modelOrderRepository.orderModel(trx, { nodeId, modelKey }))
    const { status, body } = await node.get(path)
    assert.equal(status, 200)
    return body.ingredients
  }

  it("is a merge's base and its adapters, with their weights", async () => {
    const base = await add({ model: {} })
    const adapters = [await add({ adapter: {} }), await add({ adapter: { seed: 2 } })]
    const job_id = await createMerge(api, key, {
      base: versionRef(base.id),
      adapters: adapters.map(({ id }) => versionRef(id)),
      weights: [1, -0.5],
    })
    const merged = await add({ model: {}, job_id })

    const found = (await ingredients(merged.key)) as { role: string; weight: number | null; from: unknown }[]

    assert.deepEqual(
      found.map(({ role, weight, from }) => ({ role, weight, from })),
      [
        { role: 'base', weight: null, from: { type: 'version', model_key: base.key } },
        { role: 'adapter', weight: 1, from: { type: 'version', model_key: adapters[0]?.key } },
        { role: 'adapter', weight: -0.5, from: { type: 'version', model_key: adapters[1]?.key } },
      ],
    )
  })

  it("is a retrained version's base and the adapter that its run produced", async () => {
    const base = await add({ model: {} })
    const job_id = await createRun(api, key, {
      model_config_id: 'llm-qlora-finetune',
      dataset_id: await readyDataset(api, accountId, { columns: ['instruction', 'output'] }),
      base: versionRef(base.id),
    })
    const retrained = await add({ model: {}, adapter: {}, job_id })

    assert.deepEqual(await ingredients(retrained.key), [
      { role: 'base', label: 'the base', weight: null, from: { type: 'version', model_key: base.key } },
      {
        role: 'adapter',
        label: 'its adapter',
        weight: null,
        from: { type: 'version', model_key: retrained.key },
      },
    ])
  })

  it('is empty once a source of the merge is gone', async () => {
    const { objects } = api.services
    const folder = `accounts/${accountId}/mine/`
    for (const path of ['adapter_config.json', 'adapter_model.safetensors'])
      await objects.put(`${folder}${path}`, Buffer.from('{}'), { contentType: 'application/octet-stream' })
    const base = await add({ model: {} })
    const job_id = await createMerge(api, key, {
      base: versionRef(base.id),
      adapters: [{ type: 'storage', uri: `s3://hearth/${folder}` }],
    })
    const merged = await add({ model: {}, job_id })
    assert.equal((await ingredients(merged.key)).length, 2)

    await objects.deletePrefix(folder)

    assert.deepEqual(await ingredients(merged.key), [])
  })

  it('is empty for other merges, for runs without an adapter and for models from elsewhere', async () => {
    const [base, other] = [await add({ model: {} }), await add({ model: { seed: 1 } })]
    const job_id = await createMerge(api, key, {
      method: 'slerp',
      sources: [versionRef(base.id), versionRef(other.id)],
    })
    const run = await createRun(api, key, {
      model_config_id: 'llm-qlora-finetune',
      dataset_id: await readyDataset(api, accountId, { columns: ['instruction', 'output'] }),
      base: versionRef(base.id),
      hyperparameters: { adapter: 'none' },
    })

    assert.deepEqual(await ingredients(base.key), [])
    assert.deepEqual(await ingredients((await add({ model: {}, job_id })).key), [])
    assert.deepEqual(await ingredients((await add({ model: {}, job_id: run })).key), [])
    assert.equal((await node.get('/api/v1/nodes/models/absent/expectation')).status, 404)
  })
})
