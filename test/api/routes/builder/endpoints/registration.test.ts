import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { newId } from '../../../../../domain/ids.ts'
import { until } from '../../../../support/assertions/until.ts'
import { buildHeldTask, buildRun, buildVersion } from '../../../../support/builders/build-endpoint.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../../../../support/servers/api.ts'

const schema = (properties: object) => ({ type: 'object', properties, required: Object.keys(properties) })

const LISTING = {
  description: 'Says what a house costs',
  display_name: 'House prices',
  input_schema: schema({ instances: { type: 'array' } }),
  output_schema: schema({ predictions: { type: 'array' } }),
  example_input: { instances: [{ rooms: 3 }] },
  example_output: { predictions: [100] },
  tags: ['homes'],
  task_type: 'regression',
  price_per_request: 0.001,
}

describe('register-for-inference (4.4)', () => {
  let api: TestApi
  let mine: { accountId: string; key: string }
  let other: { accountId: string; key: string }
  before(async () => {
    api = await startApi()
    mine = await api.account()
    other = await api.account()
  })
  after(() => api[Symbol.asyncDispose]())

  const completedRun = async () => {
    const run = await buildRun(api.database.db, mine.accountId)
    const version = await buildVersion(api.database.db, mine.accountId, { job_id: run.id })
    return { run, version }
  }
  const runOf = async (model_config_id: string, runtime_profile: string) => {
    const run = await buildRun(api.database.db, mine.accountId, { model_config_id })
    const columns = { job_id: run.id, model_config_id, runtime_profile }
    await buildVersion(api.database.db, mine.accountId, columns)
    return run
  }
  const register = (runId: string, body: unknown, key = mine.key) =>
    api.call('POST', `/api/builder/v1/training/runs/${runId}/register-for-inference`, { key, body })
  const read = (id: string, key: string) => api.call('GET', `/api/builder/v1/endpoints/${id}`, { key })
  const review = (id: string, verdict: string, body: unknown = {}) =>
    api.call('POST', `/api/v1/admin/endpoints/${id}:${verdict}`, { key: OPERATIONS_KEY, body })

  const KINDS: [config: string, profile: string, fits: string[], others: string[]][] = [
    ['tabular-regression', 'tabular', ['regression'], ['chat', 'classification', 'tool', 'zzz']],
    ['llm-qlora-finetune', 'llm-transformers', ['chat', 'code', 'text-generation'], ['embeddings']],
    ['embedding-finetune', 'specialist-onnx', ['embeddings'], ['rerank', 'text-to-image', 'specialist']],
    ['text-classification-finetune', 'specialist-onnx', ['classification'], ['moderation', 'Classification']],
    // A config that was removed from the catalog: its runtime profile decides.
    ['no-longer-here', 'tabular', ['regression', 'classification', 'forecasting'], ['chat', 'stt']],
  ]
  for (const [config, profile, fits, others] of KINDS) {
    it(`accepts the task types of a ${config} model, and lists them when it rejects any other`, async () => {
      const { id } = await runOf(config, profile)
      const words = fits.map((one) => JSON.stringify(one)).join(', ')
      for (const task_type of others) {
        const { status, body } = await register(id, { name: `${config}-unfit`, task_type })
        assert.deepEqual([status, body.detail?.[0].loc], [422, ['body', 'task_type']], task_type)
        assert.match(body.detail[0].msg, /^must be .* for this model$/)
        assert.ok(body.detail[0].msg.includes(words), body.detail[0].msg)
      }
      for (const [i, task_type] of [...fits, undefined].entries()) {
        const { status, body } = await register(id, { name: `${config}-fit-${i}`, task_type })
        assert.deepEqual([status, body.task_type], [201, task_type ?? fits[0]])
      }
    })
  }

  it('lets the owner correct a wrong task type', async () => {
    const { run, version } = await completedRun()
    const { body: made } = await register(run.id, { name: 'mislabelled' })
    const row = api.database.db.updateTable('endpoint').where('id', '=', made.endpoint_id)
    // An earlier release allowed this registration.
    await row.set({ task_type: 'chat' }).execute()
    const patch = (task_type: string, key = mine.key) =>
      api.call('PATCH', '/api/builder/v1/endpoints/mislabelled', { key, body: { task_type } })
    const listed = async () =>
      (await api.call('GET', '/v1/models', { key: mine.key })).body.data.map(({ id }: { id: string }) => id)
    assert.ok((await listed()).includes(made.endpoint_id))

    const refused = await patch('text-to-image')
    const { status, body } = await patch('regression')

    assert.deepEqual([refused.status, refused.body.detail[0].loc], [422, ['body', 'task_type']])
    assert.deepEqual([status, body.task_type, body.version_id], [200, 'regression', version.id])
    assert.ok(!(await listed()).includes(made.endpoint_id))
    assert.equal((await patch('regression', other.key)).status, 404)
  })

  it("requires another review when an approved endpoint's task type changes", async () => {
    const { id } = await runOf('llm-qlora-finetune', 'llm-transformers')
    const listing = { ...LISTING, task_type: 'chat', visibility: 'public' }
    const { body } = await register(id, { name: 'talker', ...listing })
    await review(body.endpoint_id, 'approve')
    const patch = async (task_type: string) =>
      (await api.call('PATCH', '/api/builder/v1/endpoints/talker', { key: mine.key, body: { task_type } }))
        .body

    assert.equal((await patch('chat')).review_status, 'approved')
    assert.equal((await patch('code')).review_status, 'pending_review')
    await api.call('DELETE', '/api/builder/v1/endpoints/talker', { key: mine.key })
  })

  it("makes the run's model available to its own account at once, with the examples from training", async () => {
    const { run, version } = await completedRun()

    const { status, body } = await register(run.id, { name: 'prices-1' })

    assert.equal(status, 201)
    assert.deepEqual(
      [body.name, body.visibility, body.status, body.review_status, body.price_per_request],
      ['prices-1', 'account', 'active', 'active', 0],
    )
    assert.deepEqual(
      [body.version_id, body.source, body.base_model],
      [version.id, 'trained', 'tabular-regression'],
    )
    assert.deepEqual([body.task_type, body.model_category], ['regression', 'ml_classical'])
    assert.deepEqual(body.example_input, version.example_input)
    assert.equal((await read('prices-1', mine.key)).status, 200)
    assert.equal((await read('prices-1', other.key)).status, 404)
  })

  const remove = (id: string) => api.call('DELETE', `/api/builder/v1/endpoints/${id}`, { key: mine.key })
  const runOfOther = async () => {
    const run = await buildRun(api.database.db, other.accountId)
    await buildVersion(api.database.db, other.accountId, { job_id: run.id })
    return run
  }

  it('lets only the same account reuse the name of a deleted endpoint', async () => {
    const { run } = await completedRun()
    const foreign = await runOfOther()
    const name = 'used-again'
    const ids: string[] = []
    for (let i = 0; i < 3; i++) {
      const made = await register(run.id, { name })
      assert.equal(made.status, 201, made.text)
      ids.push(made.body.endpoint_id)
      assert.equal((await register(run.id, { name })).status, 409)
      assert.equal((await register(foreign.id, { name }, other.key)).status, 409)
      assert.equal((await read(name, mine.key)).body.endpoint_id, made.body.endpoint_id)
      assert.equal((await remove(made.body.endpoint_id)).status, 204)
      assert.equal((await read(name, mine.key)).status, 404)
      assert.equal((await register(foreign.id, { name }, other.key)).status, 409)
    }
    assert.equal(new Set(ids).size, 3)
    for (const id of ids) assert.equal((await read(id, mine.key)).status, 404)
  })

  it("gives the same answer for every unavailable name, regardless of the endpoint's owner", async () => {
    const { run } = await completedRun()
    const foreign = await runOfOther()
    const made = await register(foreign.id, { name: 'not-for-you' }, other.key)
    const refused = async (runId: string, key: string) => {
      const { status, body } = await register(runId, { name: 'not-for-you' }, key)
      return { status, ...body.error, request_id: '' }
    }
    const words = await refused(run.id, mine.key)

    assert.equal(words.status, 409)
    assert.equal(words.message, 'the name not-for-you is not available; choose another one')
    assert.deepEqual(await refused(foreign.id, other.key), words)
    await api.call('DELETE', `/api/builder/v1/endpoints/${made.body.endpoint_id}`, { key: other.key })
    assert.deepEqual(await refused(run.id, mine.key), words)
  })

  it('keeps the history of a deleted endpoint separate from that of a new endpoint with its name', async () => {
    const { db } = api.database
    const { run } = await completedRun()
    const name = 'twice'
    const first = (await register(run.id, { name })).body.endpoint_id
    const task = await buildHeldTask(db, mine.accountId, { endpoint_id: first })
    const manifest = async () =>
      (await api.call('GET', `/api/builder/v1/mcp/manifest/${name}`, { key: mine.key })).body
    await until(async () => (await manifest()).version === '1.0.0')
    await remove(first)
    const input_schema = schema({ rooms: { type: 'number' } })
    const listing = { input_schema, example_input: { rooms: 1 }, output_schema: {}, example_output: {} }
    const second = (await register(run.id, { name, ...listing })).body.endpoint_id

    const tasks = async (id: string) =>
      (await api.call('GET', `/api/builder/v1/tasks?endpoint_id=${id}`, { key: mine.key })).body.tasks
    assert.deepEqual(
      (await tasks(first)).map((one: { task_id: string }) => one.task_id),
      [task],
    )
    assert.deepEqual(await tasks(second), [])
    // From the version, an agent that knows the tool by name can see that its input has changed.
    await until(async () => (await manifest()).version === '2.0.0')
    assert.deepEqual((await manifest()).inputSchema, input_schema)
    const names = await db.selectFrom('endpoint').select('name').where('id', '=', first).execute()
    assert.deepEqual(names, [{ name: `twice~${first}` }])
  })

  it('leaves a row without schemas, examples and description when the endpoint is deleted', async () => {
    const { db } = api.database
    const { run } = await completedRun()
    const text = randomBytes(20_000).toString('hex')
    const property = { type: 'object', properties: { x: { type: 'string', description: text } } }
    const manifest = async (name: string) =>
      (await api.call('GET', `/api/builder/v1/mcp/manifest/${name}`, { key: mine.key })).body
    const listing = {
      description: text.slice(0, 10_000),
      input_schema: property,
      output_schema: property,
      example_input: { x: text },
      example_output: { x: text },
      examples: [{ name: 'one', description: text.slice(0, 1_000), input: { x: text }, output: { x: text } }],
    }
    const { body } = await register(run.id, { name: 'wordy', ...listing })
    await until(async () => (await manifest('wordy')).version === '1.0.0')

    assert.equal((await remove(body.endpoint_id)).status, 204)

    const [{ stored }] = (
      await sql<{ stored: number }>`
        select (select pg_column_size(endpoint.*) from endpoint where id = ${body.endpoint_id})
          + (select pg_column_size(v.*) from tool_version v where endpoint_id = ${body.endpoint_id}) as stored`.execute(
        db,
      )
    ).rows as [{ stored: number }]
    assert.ok(stored < 2_000, `${stored} bytes`)
    // The account keeps the name, and the tool's next manifest is a major version.
    await register(run.id, {
      name: 'wordy',
      ...listing,
      description: 'Says less',
      input_schema: { ...property, required: ['x'] },
    })
    await until(async () => (await manifest('wordy')).version === '2.0.0')
  })

  it('assigns a name to only one of several concurrent requests', async () => {
    const { run } = await completedRun()
    const { body } = await register(run.id, { name: 'contended' })
    await remove(body.endpoint_id)

    const all = await Promise.all(
      Array.from({ length: 8 }, async () => (await register(run.id, { name: 'contended' })).status),
    )

    assert.deepEqual(
      all.toSorted((a, b) => a - b),
      [201, 409, 409, 409, 409, 409, 409, 409],
    )
  })

  const RESERVED = ['training.merge', 'training_merge', 'list_endpoints', 'recall', 'hf-x']
  const UNFIT = ['', 'Prices', 'a b', '-a', 'a-', 'a/b', 'a:b', 'ä', 'x'.repeat(101), newId()]
  for (const name of [...UNFIT, ...RESERVED]) {
    it(`rejects the name ${JSON.stringify(name)}`, async () => {
      const { run } = await completedRun()
      const { status, body } = await register(run.id, { name })
      assert.equal(status, 422)
      assert.deepEqual(body.detail[0].loc, ['body', 'name'])
    })
  }

  it('reports every field that a public endpoint lacks', async () => {
    const { run } = await completedRun()

    const { status, body } = await register(run.id, { name: 'public-1', visibility: 'public', tags: [] })

    assert.equal(status, 422)
    assert.deepEqual(
      body.detail.map(({ loc }: { loc: string[] }) => loc[1]).toSorted(),
      Object.keys(LISTING).toSorted(),
    )
  })

  it('rejects invalid schemas and examples that do not match', async () => {
    const { run } = await completedRun()

    const noSchema = await register(run.id, { name: 'bad-1', input_schema: { type: 'objekt' } })
    const noFit = await register(run.id, { ...LISTING, name: 'bad-2', example_input: {} })
    const negative = await register(run.id, { name: 'bad-3', price_per_request: -1 })

    assert.deepEqual([noSchema.status, noSchema.body.detail[0].loc], [422, ['body', 'input_schema']])
    assert.deepEqual(
      [noFit.status, noFit.body.error.message],
      [422, 'body.example_input.instances: does not match input_schema: Field required'],
    )
    assert.equal(negative.status, 422)
  })

  it('lists an endpoint publicly once an operator approves it (3.6)', async () => {
    const { run } = await completedRun()
    const { status, body } = await register(run.id, { ...LISTING, name: 'public-2', visibility: 'public' })
    assert.deepEqual([status, body.review_status, body.price_per_request], [201, 'pending_review', 0.001])
    assert.equal((await read('public-2', mine.key)).status, 200)
    assert.equal((await read('public-2', other.key)).status, 403)

    const waiting = await api.call('GET', '/api/v1/admin/endpoints', { key: OPERATIONS_KEY })
    assert.deepEqual(
      waiting.body.endpoints.map(({ name }: { name: string }) => name),
      ['public-2'],
    )
    const approved = await review(body.endpoint_id, 'approve', { note: 'fine' })

    assert.deepEqual([approved.status, approved.body.review_status], [200, 'approved'])
    assert.equal((await review(body.endpoint_id, 'approve')).status, 200)
    assert.equal((await read('public-2', other.key)).status, 200)
    const row = await api.database.db
      .selectFrom('endpoint')
      .select('price_micro')
      .where('name', '=', 'public-2')
      .executeTakeFirstOrThrow()
    assert.equal(row.price_micro, 100_000)
  })

  it('keeps a rejected endpoint private, shows the reason, and lets its owner offer it again', async () => {
    const { run } = await completedRun()
    const { body } = await register(run.id, { ...LISTING, name: 'public-3', visibility: 'public' })

    assert.equal((await review(body.endpoint_id, 'reject', { note: 'too vague' })).status, 200)

    const seen = await read('public-3', mine.key)
    assert.deepEqual([seen.body.review_status, seen.body.review_note], ['rejected', 'too vague'])
    assert.equal((await read('public-3', other.key)).status, 403)
    const again = await api.call('PATCH', `/api/builder/v1/endpoints/public-3`, {
      key: mine.key,
      body: { visibility: 'public', description: 'Much clearer' },
    })
    assert.equal(again.body.review_status, 'pending_review')
  })

  it('answers 409 to the review of an endpoint that is not public', async () => {
    const { run } = await completedRun()
    const { body } = await register(run.id, { name: 'own-1' })

    assert.equal((await review(body.endpoint_id, 'approve')).status, 409)
    assert.equal((await review(newId(), 'approve')).status, 404)
  })

  it('accepts only a completed run of the caller', async () => {
    const { db } = api.database
    for (const status of ['pending', 'running', 'failed', 'cancelled'] as const) {
      const run = await buildRun(db, mine.accountId, { status })
      assert.equal((await register(run.id, { name: `not-${status}` })).status, 409)
    }
    const { run } = await completedRun()
    assert.equal((await register(run.id, { name: 'theirs' }, other.key)).status, 404)
    assert.equal((await register(newId(), { name: 'nothing' })).status, 404)
    assert.equal(
      (await register(run.id, { name: 'viewed' }, await api.key(mine.accountId, 'viewer'))).status,
      403,
    )
  })
})
