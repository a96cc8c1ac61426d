import assert from 'node:assert/strict'
import { createTrainingActivities } from '../../../../../activities/control/training/runs.ts'
import * as versionRepository from '../../../../../db/repositories/models/versions.ts'
import type { NewModelVersion } from '../../../../../db/tables/models.ts'
import { newId } from '../../../../../domain/ids.ts'
import { claimJob, completeJob, createRun, readyDataset } from '../../../../support/builders/training.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'
import { type SignedNode, signedNode } from '../../../../support/servers/nodes/signed-node.ts'

const RUNS = '/api/builder/v1/training/runs'
const LLM = 'llm-qlora-finetune'
const FOLDER = ['adapter/adapter_config.json', 'model/config.json', 'model/model.safetensors']

describe('retraining (2.4, 4.3)', () => {
  let api: TestApi
  let accountId: string
  let key: string
  let dataset_id: string
  let node: SignedNode

  before(async () => {
    api = await startApi()
    node = await signedNode(api)
  })
  after(() => api[Symbol.asyncDispose]())
  beforeEach(async () => {
    ;({ accountId, key } = await api.account())
    dataset_id = await readyDataset(api, accountId)
  })

  const create = (body: object) =>
    api.call('POST', RUNS, {
      key,
      body: { job_name: 'again', model_config_id: 'tabular-regression', dataset_id, ...body },
    })

  /** Creates a completed run with a model, in the state in which the workflow leaves it. */
  async function finished(body: object = {}): Promise<{ jobId: string; versionId: string }> {
    const jobId = await createRun(api, key, { dataset_id, ...body })
    const { lease_token } = await claimJob(node, jobId)
    assert.equal((await completeJob(node, lease_token)).status, 200)
    await createTrainingActivities(api.services).finishRun({ jobId, status: 'completed' })
    const { body: run } = await api.call('GET', `${RUNS}/${jobId}`, { key })
    return { jobId, versionId: run.version_id }
  }

  async function version(
    change: Partial<NewModelVersion> = {},
    paths: readonly string[] = FOLDER,
  ): Promise<string> {
    const id = newId()
    const files = paths.map((path) => ({
      path,
      object_key: `a/${id}/${path}`,
      size_bytes: 1,
      sha256: '0'.repeat(64),
    }))
    const row = {
      id,
      account_id: accountId,
      model_key: `m-${id.slice(-12)}`,
      name: 'm',
      model_config_id: LLM,
      runtime_profile: 'llm-transformers',
      memory_mb: 100,
      input_schema: '{}',
      output_schema: '{}',
      example_input: '{}',
      example_output: '{}',
      ...change,
    }
    await api.database.db.transaction().execute((trx) => versionRepository.insertVersion(trx, row, files))
    return id
  }

  const chatDataset = () => readyDataset(api, accountId, { columns: ['instruction', 'input', 'output'] })

  it('starts from a version or from the job that created it, and records the lineage', async () => {
    const first = await finished()

    for (const base of [
      { type: 'model_version', version_id: first.versionId },
      { type: 'job', job_id: first.jobId },
    ] as const) {
      const second = await finished({ base })
      const { body: run } = await api.call('GET', `${RUNS}/${second.jobId}`, { key })
      assert.equal(run.parent_job_id, first.jobId)
      assert.deepEqual(run.base, base)
      const stored = await api.database.db
        .selectFrom('model_version')
        .select(['base_model_version_id', 'parent_job_id'])
        .where('id', '=', second.versionId)
        .executeTakeFirst()
      assert.deepEqual(stored, { base_model_version_id: first.versionId, parent_job_id: first.jobId })
    }
  })

  it('gives the node the model to start from, and protects that model while the run is open', async () => {
    const first = await finished()
    const jobId = await createRun(api, key, { dataset_id, base: { type: 'job', job_id: first.jobId } })

    const kept = await api.call('DELETE', `${RUNS}/${first.jobId}`, { key })
    const { specification } = await claimJob(node, jobId)

    assert.equal(kept.status, 409)
    assert.match(kept.body.error.message, new RegExp(`the run ${jobId} starts from it`))
    const { model_key } = await api.database.db
      .selectFrom('model_version')
      .select('model_key')
      .where('id', '=', first.versionId)
      .executeTakeFirstOrThrow()
    assert.deepEqual(specification.base, { type: 'version', model_key })
    const plain = await claimJob(node, await createRun(api, key, { dataset_id }))
    assert.equal(plain.specification.base, null)
  })

  it('reruns from the same model, and refers to the original run', async () => {
    const first = await finished()
    const jobId = await createRun(api, key, { dataset_id, base: { type: 'job', job_id: first.jobId } })

    const again = await api.call('POST', `${RUNS}/${jobId}:again`, { key, body: {} })

    assert.equal(again.status, 202, again.text)
    const [before, after] = await Promise.all(
      [jobId, again.body.job_id].map(async (id) => (await api.call('GET', `${RUNS}/${id}`, { key })).body),
    )
    assert.deepEqual(after.base, before.base)
    assert.equal(after.parent_job_id, jobId)
  })

  it('accepts public versions of other accounts, and answers for private ones as if they did not exist', async () => {
    const other = await api.account()
    const shared = await version({ account_id: other.accountId, visibility: 'public' })
    const hidden = await version({ account_id: other.accountId })
    const disabled = await version({ lifecycle_status: 'disabled' })
    const rows = { model_config_id: LLM, dataset_id: await chatDataset() }
    const from = (version_id: string) => create({ ...rows, base: { type: 'model_version', version_id } })

    assert.equal((await from(shared)).status, 202)
    for (const [versionId, reason] of [
      [hidden, /there is no such version/],
      [newId(), /there is no such version/],
      [disabled, /this version is disabled/],
    ] as const) {
      const { status, body } = await from(versionId)
      assert.equal(status, 422)
      assert.match(body.error.message, reason)
    }
    const job = await create({ base: { type: 'job', job_id: newId() } })
    assert.equal(job.status, 422)
    assert.match(job.body.error.message, /no such job with a finished model/)
  })

  it('rejects a base that does not fit the config', async () => {
    const language = await version()
    const adapterOnly = await version({}, ['adapter/adapter_model.safetensors'])
    const rows = { model_config_id: LLM, dataset_id: await chatDataset() }
    for (const [body, reason] of [
      [{ base: { type: 'model_version', version_id: language } }, /is a model of llm-qlora-finetune/],
      [{ ...rows, base: { type: 'model_version', version_id: adapterOnly } }, /holds no model with config/],
      [
        { model_config_id: 'text-classification', base: { type: 'model_version', version_id: language } },
        /text-classification does not support retraining/,
      ],
    ] as const) {
      const answer = await create(body)
      assert.equal(answer.status, 422)
      assert.match(answer.body.error.message, reason)
    }
  })

  it("reads stored files only under the account's own folder", async () => {
    const folder = `accounts/${accountId}/models/mine`
    for (const name of ['config.json', 'model.safetensors']) {
      await api.services.objects.put(`${folder}/${name}`, Buffer.from('x'), { contentType: 'text/plain' })
    }
    const rows = { model_config_id: LLM, dataset_id: await chatDataset() }
    const from = (uri: string) => create({ ...rows, base: { type: 'storage', uri } })

    const { status, body } = await from(`s3://hearth/${folder}`)
    assert.equal(status, 202)
    const { specification } = await claimJob(node, body.job_id)
    assert.ok(specification.base?.type === 'files')
    assert.deepEqual(specification.base.files.map(({ path }) => path).toSorted(), [
      'config.json',
      'model.safetensors',
    ])

    const own = `s3://hearth/accounts/${accountId}`
    for (const [uri, reason] of [
      [`s3://hearth/accounts/${newId()}/models/mine`, /only addresses below/],
      [`${own}/../${newId()}/models`, /only addresses below/],
      [`s3://elsewhere/accounts/${accountId}/models/mine`, /only addresses below/],
      [`${own}/models/absent`, /nothing at this address/],
    ] as const) {
      const refused = await from(uri)
      assert.equal(refused.status, 422, uri)
      assert.match(refused.body.error.message, reason)
    }
  })
})

describe('language model runs (4.3)', () => {
  let api: TestApi
  let accountId: string
  let key: string

  before(async () => {
    // Nothing is downloaded before a node claims a run.
    api = await startApi({ env: { HEARTH_HUB_ENDPOINT: 'http://127.0.0.1:9' } })
  })
  after(() => api[Symbol.asyncDispose]())
  beforeEach(async () => ({ accountId, key } = await api.account()))

  async function create(columns: readonly string[], hyperparameters: object, more: object = {}) {
    const dataset_id = await readyDataset(api, accountId, { columns })
    const body = { job_name: 'tune', model: LLM, dataset_id, hyperparameters, ...more }
    return api.call('POST', RUNS, { key, body })
  }

  async function queueOf(jobId: string): Promise<string> {
    const { db } = api.database
    const rows = db.selectFrom('training_run').select('task_queue').where('id', '=', jobId)
    return (await rows.executeTakeFirstOrThrow()).task_queue
  }

  it('are queued for GPU nodes while one is online, and for CPU nodes otherwise or on request', async () => {
    const columns = ['instruction', 'output']
    const queue = async (more: object) => queueOf((await create(columns, {}, more)).body.job_id)
    assert.equal(await queue({}), 'train.cpu')

    const { db } = api.database
    const { nodeId } = await signedNode(api, 'with a GPU')
    await db.updateTable('node').set({ hardware: 'gpu' }).where('id', '=', nodeId).execute()
    await db
      .insertInto('node_state')
      .values({ node_id: nodeId, gateway_id: newId(), snapshot: '{}' })
      .execute()

    assert.equal(await queue({}), 'train.gpu')
    assert.equal(await queue({ hardware_preference: 'cpu_only' }), 'train.cpu')
    await db.deleteFrom('node_state').where('node_id', '=', nodeId).execute()
  })

  it('require an available base, and are rejected immediately without a hub', async () => {
    await using lonely = await startApi()
    const own = await lonely.account()
    const dataset_id = await readyDataset(lonely, own.accountId, { columns: ['instruction', 'output'] })
    for (const more of [{}, { base: { type: 'hf', repo_id: 'any/model' } }]) {
      const body = { job_name: 'tune', model: LLM, dataset_id, ...more }
      const { status, body: refused } = await lonely.call('POST', RUNS, { key: own.key, body })
      assert.equal(status, 422, JSON.stringify(refused))
      assert.match(refused.error.message, /body\.base.*HEARTH_HUB_ENDPOINT/)
    }
  })

  it('require the columns of their dataset type, and report the missing one', async () => {
    assert.equal((await create(['instruction', 'output'], {})).status, 202)
    assert.equal((await create(['conversations'], { dataset_type: 'chat' })).status, 202)
    const named = { dataset_type: 'text', text_column: 'body' }
    assert.equal((await create(['body'], named)).status, 202)
    for (const [columns, hyperparameters, reason] of [
      [['instruction', 'answer'], {}, /needs the column output; the dataset has instruction, answer/],
      [['text'], { dataset_type: 'chat' }, /needs the column messages or conversations/],
      [['text'], named, /needs the column body/],
    ] as const) {
      const { status, body } = await create(columns, hyperparameters)
      assert.equal(status, 422)
      assert.match(body.error.message, reason)
    }
  })

  it('are placed on GPU nodes for 8-bit optimizers, which cpu_only rejects', async () => {
    const eight = { optimizer: 'adamw_8bit' }
    const { body } = await create(['instruction', 'output'], eight)
    assert.equal(await queueOf(body.job_id), 'train.gpu')

    const refused = await create(['instruction', 'output'], eight, { hardware_preference: 'cpu_only' })
    assert.equal(refused.status, 422)
    assert.match(refused.body.error.message, /adamw_8bit needs a CUDA node/)
  })

  it('accept every spelling in the contract, and report values out of range', async () => {
    const columns = ['instruction', 'output']
    const { body } = await create(columns, {
      num_epochs: 2,
      checkpoint_every_steps: 50,
      flash_attention: true,
    })
    const run = await api.call('GET', `${RUNS}/${body.job_id}`, { key })
    const { epochs, save_steps, flash_attention, sequence_len } = run.body.hyperparameters
    assert.deepEqual([epochs, save_steps, flash_attention, sequence_len], [2, 50, true, 8192])

    for (const wrong of [{ val_set_size: 1 }, { adapter: 'dora' }, { optimizer: 'sgd' }, { lora_r: 0 }]) {
      const { status } = await create(columns, wrong)
      assert.equal(status, 422, JSON.stringify(wrong))
    }
  })
})
