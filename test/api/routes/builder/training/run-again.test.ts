import assert from 'node:assert/strict'
import { createRun, readyDataset } from '../../../../support/builders/training.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

const RUNS = '/api/builder/v1/training/runs'

describe('rerunning a training run', () => {
  let api: TestApi
  let accountId: string
  let key: string
  let dataset_id: string
  let runId: string
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())
  beforeEach(async () => {
    ;({ accountId, key } = await api.account())
    dataset_id = await readyDataset(api, accountId)
    runId = await createRun(api, key, {
      dataset_id,
      hyperparameters: { epochs: 7, learning_rate: 0.5 },
      operating_mode: 'eco',
      hardware_preference: 'cpu_only',
    })
  })

  const again = (body: object = {}, headers?: Record<string, string>) =>
    api.call('POST', `${RUNS}/${runId}:again`, { key, body, ...(headers && { headers }) })
  const read = async (id: string) => (await api.call('GET', `${RUNS}/${id}`, { key })).body

  it('creates the same run with a new id that refers to the original', async () => {
    const { status, body } = await again()

    assert.equal(status, 202)
    assert.notEqual(body.job_id, runId)
    const [first, second] = [await read(runId), await read(body.job_id)]
    const same = [
      'job_name',
      'model_config_id',
      'dataset_id',
      'hyperparameters',
      'operating_mode',
      'hardware_preference',
      'base',
    ]
    for (const field of same) assert.deepEqual(second[field], first[field], field)
    assert.equal(second.parent_job_id, runId)
    assert.equal(second.status, 'pending')
  })

  it('treats null hyperparameters as unchanged', async () => {
    const { status, body } = await again({ hyperparameters: { epochs: null, target_column: null } })

    assert.equal(status, 202)
    assert.deepEqual((await read(body.job_id)).hyperparameters, (await read(runId)).hyperparameters)
  })

  it('applies changes, and reports invalid ones', async () => {
    const other = await readyDataset(api, accountId)
    const changed = await again({ job_name: 'more', dataset_id: other, hyperparameters: { epochs: 9 } })
    const run = await read(changed.body.job_id)
    assert.equal(run.job_name, 'more')
    assert.equal(run.dataset_id, other)
    assert.equal(run.hyperparameters.epochs, 9)
    assert.equal(run.hyperparameters.learning_rate, 0.5)

    const wrong = await again({ hyperparameters: { epochs: -1 } })
    assert.equal(wrong.status, 422)
    assert.match(wrong.body.error.message, /body\.hyperparameters\.epochs|hyperparameters\.epochs/)
    const unknown = await again({ epochs: 3 })
    assert.equal(unknown.status, 422)
    assert.match(unknown.body.error.message, /epochs/)
    const foreign = await readyDataset(api, (await api.account()).accountId)
    const theirs = await again({ dataset_id: foreign })
    assert.equal(theirs.status, 422)
    assert.match(theirs.body.error.message, /dataset_id/)
  })

  it("happens once per idempotency key, within the quota, and only for the account's own runs", async () => {
    const headers = { 'idempotency-key': crypto.randomUUID() }
    const [one, two] = [await again({}, headers), await again({}, headers)]
    assert.equal(two.body.job_id, one.body.job_id)
    assert.equal(two.headers['idempotency-replayed'], 'true')

    assert.equal((await again()).status, 202)
    assert.equal((await again()).status, 202)
    const full = await again()
    assert.equal(full.status, 429)
    assert.equal(full.body.error.code, 'training_quota_exceeded')
    const stranger = await api.account()
    const theirs = await api.call('POST', `${RUNS}/${runId}:again`, { key: stranger.key, body: {} })
    assert.equal(theirs.status, 404)
    await api.database.db
      .updateTable('training_run')
      .set({ job_type: 'merge' })
      .where('id', '=', runId)
      .execute()
    const merge = await again()
    assert.equal(merge.status, 409)
    assert.match(merge.body.error.message, /merge/)
  })
})
