import assert from 'node:assert/strict'
import { adapterProblem, isAdapterFile } from '../../../../../domain/adapters.ts'
import { newId } from '../../../../../domain/ids.ts'
import { loadCatalog } from '../../../../../platform/catalog.ts'
import { buildEndpoint, buildRun, buildVersion } from '../../../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

const CONFIG = 'llm-qlora-finetune'
const LLM = { runtime_profile: 'llm-transformers' }
const TUNED = ['adapter/adapter_config.json', 'adapter/adapter_model.safetensors', 'model/model.safetensors']

describe('serve_as', () => {
  let api: TestApi
  let mine: { accountId: string; key: string }
  before(async () => {
    api = await startApi()
    mine = await api.account()
  })
  after(() => api?.[Symbol.asyncDispose]())

  async function addFiles(version_id: string, paths: readonly string[]): Promise<void> {
    const files = paths.map((path) => ({
      version_id,
      path,
      object_key: newId(),
      size_bytes: 1,
      sha256: '0'.repeat(64),
    }))
    await api.database.db.insertInto('version_file').values(files).execute()
  }

  /** Builds a completed run that has fine-tuned a base; returns the base and the run. */
  async function tune(hyperparameters: object = {}, { paths = TUNED, hasBase = true } = {}) {
    const { db } = api.database
    const base = await buildVersion(db, mine.accountId, LLM)
    await addFiles(base.id, ['model.safetensors'])
    const run = await buildRun(db, mine.accountId, {
      model_config_id: CONFIG,
      hyperparameters: JSON.stringify({ adapter: 'qlora', lora_r: 16, ...hyperparameters }),
    })
    const version = await buildVersion(db, mine.accountId, {
      ...LLM,
      job_id: run.id,
      model_config_id: CONFIG,
      base_model_version_id: hasBase ? base.id : null,
    })
    await addFiles(version.id, paths)
    return { base, run }
  }
  const register = (runId: string, body: object = {}) =>
    api.call('POST', `/api/builder/v1/training/runs/${runId}/register-for-inference`, {
      key: mine.key,
      body: { name: `tuned-${newId().slice(-12)}`, task_type: 'chat', ...body },
    })

  it('is adapter by default when the base is a model of the platform, and names the base', async () => {
    const { base, run } = await tune()

    const { status, body } = await register(run.id)

    assert.equal(status, 201, JSON.stringify(body))
    const { serve_as, base_version_id, merged_because } = body
    assert.deepEqual([serve_as, base_version_id, merged_because], ['adapter', base.id, null])
    const { body: again } = await api.call('GET', `/api/builder/v1/endpoints/${body.endpoint_id}`, {
      key: mine.key,
    })
    assert.equal(again.serve_as, 'adapter')
  })

  it('is merged when the caller wants that', async () => {
    const { run } = await tune()

    const { body } = await register(run.id, { serve_as: 'merged' })

    assert.deepEqual([body.serve_as, body.base_version_id, body.merged_because], ['merged', null, null])
  })

  it('falls back to merged with the reason', async () => {
    const { run } = await tune({ lora_r: 128 })

    const { status, body } = await register(run.id, { serve_as: 'adapter' })

    assert.deepEqual([status, body.serve_as], [201, 'merged'])
    assert.equal(body.merged_because, 'its rank of 128 is above the limit of 64')
  })

  it('is the same for all endpoints of a version', async () => {
    const { run } = await tune()
    const first = await register(run.id)

    const second = await register(run.id)
    const other = await register(run.id, { serve_as: 'merged' })

    assert.equal(second.body.serve_as, 'adapter')
    assert.equal(other.status, 409)
    assert.match(
      JSON.stringify(other.body),
      new RegExp(`${first.body.name} of the same version has serve_as adapter`),
    )
  })

  it('leaves no settings to an adapter, whose server is that of its base', async () => {
    const serving = { max_model_len: 4_096 }
    const { run } = await tune()

    const refused = await register(run.id, { serve_as: 'adapter', serving })
    const merged = await register((await tune()).run.id, { serving })
    const { body } = await register(run.id)
    const path = `/api/builder/v1/endpoints/${body.endpoint_id}`
    const patched = await api.call('PATCH', path, { key: mine.key, body: { serving } })

    assert.deepEqual([refused.status, patched.status], [422, 422])
    assert.match(JSON.stringify(patched.body), /set serving on an endpoint of its base/)
    assert.equal(merged.body.merged_because, 'it has settings for a server of its own')
  })

  it('is adapter with an empty serving, which stands for the defaults', async () => {
    const { run } = await tune()

    const { status, body } = await register(run.id, { serve_as: 'adapter', serving: {} })
    const path = `/api/builder/v1/endpoints/${body.endpoint_id}`
    const patched = await api.call('PATCH', path, { key: mine.key, body: { serving: {} } })

    assert.deepEqual([status, body.serve_as, body.merged_because], [201, 'adapter', null])
    assert.deepEqual([patched.status, patched.body.serving], [200, null])
    assert.equal((await register((await tune()).run.id, { serving: {} })).body.serve_as, 'adapter')
  })

  it('is one of two values', async () => {
    const { run } = await tune()

    const { status, body } = await register(run.id, { serve_as: 'lora' })

    assert.equal(status, 422)
    assert.match(JSON.stringify(body), /serve_as/)
  })

  it('gives an adapter its base as parent in the list of models', async () => {
    const { base, run } = await tune()
    const { db } = api.database
    const columns = { account_id: mine.accountId, version_id: base.id, model_key: base.model_key }
    const parent = await buildEndpoint(db, mine.accountId, { ...columns, ...LLM, task_type: 'chat' })
    const { body: endpoint } = await register(run.id)

    const { body } = await api.call('GET', '/v1/models', { key: mine.key })

    const models = new Map(body.data.map((model: { name: string }) => [model.name, model]))
    assert.equal((models.get(endpoint.name) as { parent?: string }).parent, parent.name)
    assert.equal('parent' in (models.get(parent.name) as object), false)

    const isOffered = { visibility: 'public', review_status: 'approved' } as const
    await db.updateTable('endpoint').set(isOffered).where('id', '=', endpoint.endpoint_id).execute()
    const { key } = await api.account()
    const parentSeen = async (): Promise<unknown> =>
      (await api.call('GET', `/v1/models/${endpoint.name}`, { key })).body.parent
    assert.equal(await parentSeen(), undefined)
    await db.updateTable('endpoint').set(isOffered).where('id', '=', parent.id).execute()
    assert.equal(await parentSeen(), parent.name)
  })

  it('depends on the run, its base and the engines', () => {
    const { profiles } = loadCatalog()
    const base = { ...LLM, lifecycle_status: 'ready', paths: ['model.safetensors'] }
    const facts = { ...LLM, paths: TUNED, hyperparameters: { lora_r: 16 }, base }
    const CASES: [facts: Parameters<typeof adapterProblem>[0], problem: RegExp | undefined][] = [
      [facts, undefined],
      [{ ...facts, paths: ['model/model.safetensors'] }, /trained all weights/],
      [{ ...facts, base: undefined }, /not a model of this platform/],
      [{ ...facts, base: { ...base, paths: TUNED } }, /fine-tuned model too/],
      [{ ...facts, base: { ...base, lifecycle_status: 'disabled' } }, /disabled/],
      [{ ...facts, base: { ...base, runtime_profile: 'llm-llamacpp' } }, /another kind/],
      [{ ...facts, hyperparameters: { lora_r: 65 } }, /rank of 65 .* limit of 64/],
      [{ ...facts, runtime_profile: 'tabular' }, /no engine/],
    ]
    for (const [given, problem] of CASES) {
      const found = adapterProblem(given, profiles)
      if (problem) assert.match(found ?? 'none', problem)
      else assert.equal(found, undefined)
    }
    assert.deepEqual([...TUNED, 'model/chat_template.jinja', 'model/tokenizer.json'].filter(isAdapterFile), [
      TUNED[0],
      TUNED[1],
      'model/chat_template.jinja',
    ])
  })
})
