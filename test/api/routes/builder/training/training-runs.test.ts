import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { newId } from '../../../../../domain/ids.ts'
import { createRun, readyDataset } from '../../../../support/builders/training.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

const RUNS = '/api/builder/v1/training/runs'

describe('training runs', () => {
  let api: TestApi
  let accountId: string
  let key: string
  let dataset_id: string

  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())
  beforeEach(async () => {
    ;({ accountId, key } = await api.account())
    dataset_id = await readyDataset(api, accountId)
  })

  const create = (body: object, headers?: Record<string, string>) =>
    api.call('POST', RUNS, {
      key,
      body: { job_name: 'prices', model_config_id: 'tabular-regression', dataset_id, ...body },
      ...(headers && { headers }),
    })

  it('start as pending with a queue position, no price, and a queued event (2.3, 3.2)', async () => {
    const { status, body } = await create({ hyperparameters: { epochs: 50 } })

    assert.equal(status, 202)
    assert.equal(body.status, 'pending')
    assert.match(body.message, /^Training run queued/)
    assert.equal(typeof body.queue_position, 'number')
    // No job is charged, whatever it trains and however long it runs.
    assert.equal(body.estimated_cost_credits, null)
    const read = await api.call('GET', `${RUNS}/${body.job_id}`, { key })
    assert.equal(read.body.estimated_cost_credits, null)

    const next = await create({})
    assert.equal(next.body.queue_position, body.queue_position + 1)
    const urgent = await create({ operating_mode: 'performance' })
    assert.equal(urgent.body.queue_position, 0)

    const events = await api.call('GET', `${RUNS}/${body.job_id}/events`, { key })
    assert.deepEqual(
      events.body.events.map((event: { event_type: string }) => event.event_type),
      ['queued'],
    )
    const start = await api.database.db
      .selectFrom('workflow_start')
      .selectAll()
      .where('workflow_id', '=', `job/${urgent.body.job_id}`)
      .executeTakeFirstOrThrow()
    assert.equal(start.workflow, 'trainingRun')
    assert.equal(start.options?.priority, 1)
    assert.equal(start.options?.fairnessKey, accountId)
  })

  it('are read back with every field of the contract', async () => {
    const jobId = await createRun(api, key, { dataset_id, hyperparameters: { learning_rate: 0.5 } })

    const { body } = await api.call('GET', `${RUNS}/${jobId}`, { key })

    assert.equal(body.job_id, jobId)
    assert.equal(body.run_id, jobId)
    assert.equal(body.status, 'pending')
    assert.equal(body.job_type, 'training')
    assert.equal(body.model_config_id, 'tabular-regression')
    assert.equal(body.dataset_id, dataset_id)
    assert.equal(body.hyperparameters.learning_rate, 0.5)
    assert.equal(body.hyperparameters.epochs, 100)
    assert.deepEqual(body.metrics, { epochs: [] })
    assert.equal(body.error_message, null)
    assert.equal(body.parent_job_id, null)
    assert.equal(body.started_at, null)
    assert.equal(body.completed_at, null)
  })

  it('accept the config under the name `model` as well', async () => {
    const { status } = await create({ model_config_id: undefined, model: 'tabular-regression' })
    assert.equal(status, 202)

    const both = await create({ model: 'tabular-classification' })
    assert.equal(both.status, 422)
    const none = await create({ model_config_id: undefined })
    assert.equal(none.status, 422)
    assert.match(none.body.error.message, /model_config_id or model/)
    const unknown = await create({ model_config_id: 'no-such-thing' })
    assert.equal(unknown.status, 422)
    assert.equal(
      unknown.body.error.message,
      'body.model_config_id: there is no model config no-such-thing; there are embedding-finetune, llm-qlora-finetune, ' +
        'tabular-classification, tabular-regression, text-classification-finetune, text-classification, time-series-forecast ' +
        '(GET /api/builder/v1/training/model-configs lists them)',
    )
  })

  it('are rejected with every validation error at once, unknown fields included', async () => {
    const { status, body } = await api.call('POST', RUNS, {
      key,
      body: { base: { type: 'job', job_id: newId(), version_id: newId() }, epochs: 3 },
    })

    assert.equal(status, 422)
    const places = (body.detail as { loc: string[] }[]).map(({ loc }) => loc.slice(1).join('.'))
    assert.deepEqual(places.toSorted(), [
      'base.version_id',
      'dataset_id',
      'epochs',
      'job_name',
      'model_config_id',
    ])
  })

  it('are rejected when fields are missing or of the wrong type', async () => {
    for (const field of ['job_name', 'dataset_id']) {
      const { status, body } = await create({ [field]: undefined })
      assert.equal(status, 422)
      assert.match(JSON.stringify(body.detail), new RegExp(field))
    }
    const mode = await create({ operating_mode: 'turbo' })
    assert.equal(mode.status, 422)
    assert.deepEqual(mode.body.detail[0].loc, ['body', 'operating_mode'])
    const base = await create({ base: { type: 'foo' } })
    assert.equal(base.status, 422)
    assert.deepEqual(base.body.detail[0].loc, ['body', 'base', 'type'])
    assert.match(base.body.detail[0].msg, /"hf", "model_version", "job", "storage", not "foo"/)
  })

  it('log a warning for unknown hyperparameters and ignore them', async () => {
    const jobId = await createRun(api, key, { dataset_id, hyperparameters: { warp_factor: 9, epochs: 3 } })

    const { body } = await api.call('GET', `${RUNS}/${jobId}`, { key })
    assert.equal(body.hyperparameters.warp_factor, undefined)
    const logs = await api.call('GET', `${RUNS}/${jobId}/logs`, { key })
    assert.equal(logs.body.run_id, jobId)
    assert.match(logs.body.logs[0].message, /warp_factor/)
    assert.ok(Date.parse(logs.body.logs[0].timestamp))
  })

  it('report ignored hyperparameters in the response, as in the log', async () => {
    const { body } = await create({ hyperparameters: { targt_column: 'age', epochs: 3 } })
    const hyperparameters = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`other_${i}`, i]))
    const many = await create({ hyperparameters })

    assert.match(
      body.message,
      /^Training run queued.*\. Hyperparameter targt_column is not known to tabular-regression and is ignored; did you mean "target_column"\?$/,
    )
    assert.match(many.body.message, /other_9 .*20 more: see its log\.$/)
  })

  it('reject known hyperparameters that are out of range or of the wrong type, with their path', async () => {
    const range = await create({ hyperparameters: { epochs: 0 } })
    assert.equal(range.status, 422)
    assert.match(range.body.error.message, /hyperparameters\.epochs/)
    const type = await create({ hyperparameters: { learning_rate: 'fast', epochs: 'many' } })
    assert.equal(type.status, 422)
    assert.equal(type.body.detail.length, 2)
    assert.deepEqual(type.body.detail[0].loc.slice(0, 2), ['body', 'hyperparameters'])
    const alias = await create({ hyperparameters: { num_epochs: -1 } })
    assert.match(alias.body.error.message, /hyperparameters\.num_epochs/)
  })

  it('reject a target column that the dataset lacks, and list the existing ones', async () => {
    const { status, body } = await create({ hyperparameters: { target_column: 'price' } })

    assert.equal(status, 422)
    assert.match(body.error.message, /hyperparameters\.target_column/)
    assert.match(body.error.message, /age, income, region, target/)
  })

  it('reject unknown columns in ignore_columns, and report each by its position', async () => {
    const { status, body } = await create({ hyperparameters: { ignore_columns: ['age', 'rent', 'tax'] } })

    assert.equal(status, 422)
    assert.deepEqual(
      body.detail.map(({ loc }: { loc: unknown[] }) => loc),
      [1, 2].map((i) => ['body', 'hyperparameters', 'ignore_columns', i]),
    )
    assert.match(body.detail[0].msg, /the dataset has no column rent; it has age, income, region, target/)
    assert.equal((await create({ hyperparameters: { ignore_columns: ['age'] } })).status, 202)
  })

  it('truncate long column names in errors, list twenty of them and report twenty missing ones', async () => {
    const columns = Array.from({ length: 100 }, (_, i) => `${i}_`.padEnd(9_000, 'x'))
    const wide = { dataset_id: await readyDataset(api, accountId, { columns }) }
    const label = { name: 'label', type: 'string' }
    const textual = { dataset_id: await readyDataset(api, accountId, { columns: [label, ...columns] }) }
    const ignore_columns = columns.map((name) => `${name}?`)
    const refused = [
      await create({ ...wide, hyperparameters: { target_column: 'nope' } }),
      await create({ ...wide, hyperparameters: { ignore_columns } }),
      await create({ ...textual, hyperparameters: { target_column: 'label' } }),
    ]

    for (const { status, body } of refused) {
      assert.equal(status, 422)
      assert.match(body.error.message, /0_x{58}…, 1_x{58}….*, and 80 more(; write numbers as 1234\.5|$)/)
      assert.ok(body.error.message.length < 2_000, `${body.error.message.length} characters`)
      assert.ok(body.detail.length <= 20, `${body.detail.length} issues`)
    }
  })

  it('skip column checks when an older version stored column names beyond the current limit', async () => {
    const limits = [
      // PostgreSQL compresses repeated letters to a hundredth of their size, but not random ones.
      Array.from({ length: 300 }, (_, i) => `${i}_`.padEnd(10_000, 'x')),
      Array.from({ length: 300 }, () => randomBytes(5_000).toString('hex')),
    ]
    for (const columns of limits) {
      const old = await readyDataset(api, accountId, { columns })

      const run = await create({ dataset_id: old, hyperparameters: { target_column: 'nope' } })
      const { body } = await api.call('GET', `/api/builder/v1/datasets/${old}`, { key })

      assert.equal(run.status, 202, JSON.stringify(run.body).slice(0, 500))
      assert.equal(body.columns, null)
      assert.match(body.message, /1 MB in total/)
    }
    const { body } = await api.call('GET', `/api/builder/v1/datasets/${dataset_id}`, { key })
    assert.deepEqual([body.columns.length, body.message], [4, null])
  })

  it("require a ready dataset that is the account's own or public", async () => {
    const other = await api.account()
    const foreign = await create({ dataset_id: await readyDataset(api, other.accountId) })
    assert.equal(foreign.status, 422)
    assert.match(foreign.body.error.message, /dataset_id/)
    const absent = await create({ dataset_id: newId() })
    assert.equal(absent.status, 422)

    const visible = await readyDataset(api, other.accountId, { visibility: 'public' })
    assert.equal((await create({ dataset_id: visible })).status, 202)
    const pending = await create({ dataset_id: await readyDataset(api, accountId, { status: 'pending' }) })
    assert.equal(pending.status, 409)
    assert.match(pending.body.error.message, /pending/)
  })

  it('wait for the requested hardware', async () => {
    const queueOf = async (hardware_preference: string) => {
      const { body } = await create({ hardware_preference })
      const { db } = api.database
      const row = await db
        .selectFrom('training_run')
        .select('task_queue')
        .where('id', '=', body.job_id)
        .executeTakeFirst()
      return row?.task_queue
    }
    assert.equal(await queueOf('auto'), 'train.cpu')
    assert.equal(await queueOf('cpu_only'), 'train.cpu')
    assert.equal(await queueOf('gpu_only'), 'train.gpu')
    assert.equal(await queueOf('gpu_preferred'), 'train.cpu')
  })

  it("keep their config's own base when `base` names a hub repository", async () => {
    assert.equal((await create({ base: { type: 'hf', repo_id: 'org/name' } })).status, 202)
    const malformed = await create({ base: { type: 'hf' } })
    assert.equal(malformed.status, 422)
  })

  it("accept only the caller's own job as parent", async () => {
    const parent = await createRun(api, key, { dataset_id })
    const child = await createRun(api, key, { dataset_id, parent_job_id: parent })
    const { body } = await api.call('GET', `${RUNS}/${child}`, { key })
    assert.equal(body.parent_job_id, parent)

    const other = await api.account()
    const foreign = await api.call('POST', RUNS, {
      key: other.key,
      body: {
        job_name: 'x',
        model_config_id: 'tabular-regression',
        dataset_id: await readyDataset(api, other.accountId),
        parent_job_id: parent,
      },
    })
    assert.equal(foreign.status, 422)
  })

  it('respect the quota of open jobs, even when created concurrently', async () => {
    const answers = await Promise.all(Array.from({ length: 12 }, () => create({})))

    const refused = answers.filter(({ status }) => status === 429)
    assert.equal(answers.filter(({ status }) => status === 202).length, 4)
    assert.equal(refused.length, 8)
    assert.equal(refused[0]?.body.error.code, 'training_quota_exceeded')
    assert.ok(Number(refused[0]?.headers['retry-after']) > 0)
  })

  it('are created once per idempotency key, and a repeat gets the first response', async () => {
    const headers = { 'idempotency-key': newId() }

    const answers = await Promise.all([1, 2, 3].map(() => create({}, headers)))

    assert.equal(new Set(answers.map(({ body }) => body.job_id)).size, 1)
    assert.equal(answers.filter((one) => one.headers['idempotency-replayed'] === 'true').length, 2)
    const other = await create({ job_name: 'other' }, headers)
    assert.equal(other.status, 409)
    assert.equal(other.body.error.code, 'idempotency_key_reused')
  })

  it('are listed newest first by status, page by page', async () => {
    const made = [await createRun(api, key, { dataset_id }), await createRun(api, key, { dataset_id })]
    const third = await createRun(api, key, { dataset_id })
    await api.call('POST', `${RUNS}/${third}/cancel`, { key })

    const first = await api.call('GET', `${RUNS}?limit=1&status=pending`, { key })
    assert.deepEqual(
      first.body.runs.map((run: { job_id: string }) => run.job_id),
      [made[1]],
    )
    const cursor = encodeURIComponent(first.body.next_cursor)
    const second = await api.call('GET', `${RUNS}?limit=1&status=pending&cursor=${cursor}`, { key })
    assert.deepEqual(
      second.body.runs.map((run: { job_id: string }) => run.job_id),
      [made[0]],
    )
    assert.equal(second.body.next_cursor, null)
    const foreign = await api.call('GET', `${RUNS}?status=cancelled&cursor=${cursor}`, { key })
    assert.equal(foreign.status, 422)
    const cancelled = await api.call('GET', `${RUNS}?status=cancelled`, { key })
    assert.deepEqual(
      cancelled.body.runs.map((run: { job_id: string }) => run.job_id),
      [third],
    )
  })

  it('are hidden from other accounts', async () => {
    const jobId = await createRun(api, key, { dataset_id })
    const other = await api.account()
    for (const path of ['', '/logs', '/metrics', '/events', '/artifacts', '/artifacts/download-urls']) {
      assert.equal((await api.call('GET', `${RUNS}/${jobId}${path}`, { key: other.key })).status, 404, path)
    }
    assert.equal((await api.call('POST', `${RUNS}/${jobId}/cancel`, { key: other.key })).status, 404)
    assert.equal((await api.call('DELETE', `${RUNS}/${jobId}`, { key: other.key })).status, 404)
  })
})
