import assert from 'node:assert/strict'
import { newId } from '../../../../../domain/ids.ts'
import type { MergeClaim } from '../../../../../schemas/training-merge.ts'
import { llamaRepo, safetensors } from '../../../../support/builders/models/hub-repos.ts'
import { claimJob } from '../../../../support/builders/training.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'
import { commitOf, startHub, type TestHub } from '../../../../support/servers/hub-server.ts'
import { type SignedNode, signedNode } from '../../../../support/servers/nodes/signed-node.ts'
import {
  type Caller,
  type LineageNode,
  LineageWorld,
  type LineageModel,
  refOf,
} from '../../../../support/servers/worlds/lineage-world.ts'

const BUILDER = '/api/builder/v1'
const LLM = 'llm-qlora-finetune'

describe('the base models of runs, merges and endpoints', function () {
  this.timeout(60_000)
  let hub: TestHub
  let api: TestApi
  let world: LineageWorld
  let node: SignedNode
  let own: Caller

  before(async () => {
    hub = await startHub()
    api = await startApi({ env: { HEARTH_HUB_ENDPOINT: hub.url } })
    world = new LineageWorld(api, hub)
    node = await signedNode(api)
  })
  after(async () => {
    await api[Symbol.asyncDispose]()
    await hub[Symbol.asyncDispose]()
  })
  beforeEach(async () => {
    own = await api.account()
  })

  const post = (path: string, body: object, key = own.key) => api.call('POST', BUILDER + path, { key, body })
  const datasetId = async () => (await world.dataset(own, 'text', 'private')).id.split(':')[1] ?? ''
  const tune = async (body: object) =>
    post('/training/runs', {
      job_name: 'tune',
      model_config_id: LLM,
      dataset_id: await datasetId(),
      ...body,
    })
  const tuned = async (base: LineageModel | LineageNode, body: object) =>
    world.run(own, {
      dataset: await world.dataset(own, 'text', 'private'),
      base,
      body: { model_config_id: LLM, ...body },
    })
  const disable = async ({ config }: LineageModel) => {
    const path = `${BUILDER}/models/registry/${config}/lifecycle`
    const body = { lifecycle_status: 'disabled', reason: 'it answers nonsense' }
    assert.equal((await api.call('PATCH', path, { key: own.key, body })).status, 200)
  }
  let names = 0
  const serve = async ({ jobId }: LineageModel) =>
    (
      await post(`/training/runs/${jobId}/register-for-inference`, {
        name: `served-${++names}-${newId().slice(-6)}`,
      })
    ).body

  /** Returns the base in a node's claim, as the adapter will name it. */
  async function namedBase(body: object): Promise<{ name: unknown; revision: unknown; shown: unknown }> {
    const { status, body: accepted, text } = await tune(body)
    assert.equal(status, 202, text)
    const { specification } = await claimJob(node, accepted.job_id)
    const { hyperparameters } = await world.get(own, `/training/runs/${accepted.job_id}`)
    return {
      name: specification.hyperparameters['base_model'],
      revision: specification.base_revision,
      shown: hyperparameters.base_model,
    }
  }

  it('are reported correctly to the node and the caller, for every kind of run', async () => {
    const head = world.advance('acme/named')
    const stored = await world.store(own)
    const imported = await world.import(own, world.advance('acme/imported'))
    const first = await tuned(stored, { base: refOf(stored) })
    const revisionOf = ({ id }: LineageNode) => id.split('@')[1]
    const cases: [object, string, string | undefined][] = [
      [{ hyperparameters: { base_model: 'acme/named' } }, 'acme/named', revisionOf(head)],
      [{ base: refOf(stored) }, stored.label, undefined],
      [{ base: refOf(imported) }, 'acme/imported', imported.nodes[1] && revisionOf(imported.nodes[1])],
      [{ base: refOf(first, 'job') }, `hearth://model_version/${first.versionId}`, undefined],
      [
        { base: refOf(first), hyperparameters: { base_model: 'acme/other', seed: 7 } },
        `hearth://model_version/${first.versionId}`,
        undefined,
      ],
    ]
    for (const [body, name, revision] of cases) {
      await api.database.db
        .updateTable('account')
        .set({ training_quota: 100 })
        .where('id', '=', own.accountId)
        .execute()
      assert.deepEqual(await namedBase(body), { name, revision, shown: name }, JSON.stringify(body))
    }
  })

  it("are the models that a merge's adapters were trained on, wherever they are stored", async () => {
    const stored = await world.store(own)
    const onStored = await tuned(stored, { base: refOf(stored) })
    const fetched = world.advance('acme/fetched')
    const onFetched = await tuned(fetched, { hyperparameters: { base_model: 'acme/fetched' } })
    world.advance('acme/fetched')

    for (const [adapter, base] of [
      [onStored, refOf(stored)],
      [onFetched, refOf(fetched)],
    ] as const) {
      const merge = await post('/training/merges', { name: 'folded', adapters: [refOf(adapter)] })
      assert.equal(merge.status, 202, merge.text)
      const run = await world.get(own, `/training/runs/${merge.body.job_id}`)
      assert.deepEqual(run.base, base)
      const { ingredients } = ((await claimJob(node, merge.body.job_id)) as unknown as MergeClaim).merge
      assert.equal(ingredients[0]?.from.type, 'files')
    }
  })

  it('may only be hub repositories and stored models in a merge, each repository at one commit', async () => {
    const then = world.advance('acme/whole')
    const adapterRepo = {
      ...llamaRepo('acme/adapter'),
      files: { 'adapter_config.json': Buffer.from('{}'), 'adapter_model.safetensors': safetensors(10) },
    }
    hub.put(adapterRepo)
    const stored = await world.store(own)
    const { body } = await post('/training/merges', {
      name: 'from elsewhere',
      base: { type: 'hf', repo_id: 'acme/whole', revision: 'main' },
      adapters: [{ type: 'hf', repo_id: 'acme/adapter' }],
    })
    const claimed = async (): Promise<MergeClaim['merge']['ingredients']> =>
      ((await claimJob(node, body.job_id)) as unknown as MergeClaim).merge.ingredients
    const [first] = await claimed()
    assert.ok(first?.from.type === 'files')
    assert.equal(first.from.cache_key, then.id.replace('hub_repo:', ''))
    const { rows } = {
      rows: await api.database.db
        .selectFrom('merge_source')
        .select('ref')
        .where('job_id', '=', body.job_id)
        .orderBy('position')
        .execute(),
    }
    assert.deepEqual(
      rows.map(({ ref }) => ref['revision']),
      [then.id.split('@')[1], commitOf(adapterRepo)],
    )

    const sources = [refOf(stored), refOf(await world.store(own))]
    const blend = await post('/training/merges', { name: 'stored', method: 'slerp', sources })
    assert.equal(blend.status, 202, blend.text)
    assert.equal((await world.get(own, `/training/runs/${blend.body.job_id}`)).model_config_id, LLM)
  })

  it('that the hub does not have fail a merge with the reason', async () => {
    const { body } = await post('/training/merges', {
      name: 'absent',
      method: 'slerp',
      sources: [
        { type: 'hf', repo_id: 'nobody/nothing' },
        { type: 'hf', repo_id: 'nobody/else' },
      ],
    })

    const { ingredients } = ((await claimJob(node, body.job_id)) as unknown as MergeClaim).merge

    assert.ok(ingredients[0]?.from.type === 'unavailable')
    assert.match(
      ingredients[0].from.message,
      /^The model nobody\/nothing is not available: the hub has no such/,
    )
  })

  it('cannot be models that the account has disabled, however they are referenced', async () => {
    const imported = await world.import(own, world.advance('acme/barred'))
    const other = await world.store(own)
    await disable(imported)

    const answers = [
      await tune({ hyperparameters: { base_model: 'acme/barred' } }),
      await tune({ base: refOf(imported) }),
      await tune({ model_config_id: imported.config }),
      ...(await Promise.all(
        [
          { type: 'hf', repo_id: 'acme/barred' },
          { type: 'hf', repo_id: 'acme/barred', revision: 'main' },
          refOf(imported),
        ].map((ref) =>
          post('/training/merges', { name: 'm', method: 'slerp', sources: [ref, refOf(other)] }),
        ),
      )),
    ]

    for (const { status, body } of answers) {
      assert.equal(status, 422, JSON.stringify(body))
      assert.match(body.error.message, /disabled/)
    }
  })

  it('may be imports referenced by UUID; unknown and private ones are rejected with a reason', async () => {
    const imported = await world.import(own, world.advance('acme/by-uuid'))
    const { status, body } = await tune({ model_config_id: imported.config })
    assert.equal(status, 202)
    const run = await world.get(own, `/training/runs/${body.job_id}`)
    assert.deepEqual([run.model_config_id, run.base], [LLM, refOf(imported)])

    const stranger = await api.account()
    const hidden = await world.import(stranger, world.advance('acme/hidden'))
    for (const [id, reason] of [
      [newId(), /there is no model config/],
      [hidden.config, /there is no model config/],
    ] as const) {
      const refused = await tune({ model_config_id: id })
      assert.equal(refused.status, 422)
      assert.match(refused.body.error.message, reason)
    }
    const both = await tune({ model_config_id: imported.config, base: refOf(imported) })
    assert.match(both.body.error.message, /body\.base: the run already starts from acme\/by-uuid/)
  })

  it('that are gone from the store fail a run, which used to wait forever', async () => {
    const stored = await world.store(own)
    const { body } = await tune({ base: refOf(stored) })
    await api.services.objects.deletePrefix(stored.label.replace('s3://hearth/', ''))

    const { specification } = await claimJob(node, body.job_id)

    assert.deepEqual(specification.base, {
      type: 'unavailable',
      message: `There are no longer any files at ${stored.label}.`,
    })
  })

  it("are the start of an endpoint's chain, which the facet counts once", async () => {
    const imported = await world.import(own, world.advance('acme/root'))
    const stored = await world.store(own)
    const first = await tuned(imported, { hyperparameters: { base_model: 'acme/root' } })
    const second = await tuned(first, { base: refOf(first) })
    const merged = await world.merge(own, {
      parts: [imported, second],
      base: imported,
      body: { method: 'ties', base: refOf(imported), sources: [refOf(second), refOf(first)] },
    })
    const fetched = world.advance('acme/unregistered')
    const plain = await tuned(fetched, { hyperparameters: { base_model: 'acme/unregistered' } })
    const fromStored = await tuned(stored, { base: refOf(stored) })

    for (const [made, name] of [
      [first, 'acme/root'],
      [second, 'acme/root'],
      [merged, 'acme/root'],
      [plain, 'acme/unregistered'],
      [fromStored, null],
    ] as const) {
      const { base_model, model_category } = await serve(made)
      assert.deepEqual([base_model, model_category], [name, 'nlp'], made.name)
    }
    const { facets } = await world.get(own, '/endpoints?include_facets=true&owner=me')
    const counts = (facets.base_models as { model_name: string; n: number }[]).map((one) => [
      one.model_name,
      one.n,
    ])
    assert.deepEqual(counts, [
      ['acme/root', 4],
      ['acme/unregistered', 1],
    ])
  })
})
