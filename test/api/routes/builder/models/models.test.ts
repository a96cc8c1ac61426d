import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { sql } from 'kysely'
import { newId } from '../../../../../domain/ids.ts'
import { buildEndpoint, buildRun, buildVersion } from '../../../../support/builders/build-endpoint.ts'
import { llamaRepo } from '../../../../support/builders/models/hub-repos.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../../../../support/servers/api.ts'
import { startHub, type TestHub } from '../../../../support/servers/hub-server.ts'
import { until } from '../../../../support/servers/nodes/node.ts'

const BUILDER = '/api/builder/v1'
const MODELS = `${BUILDER}/models`

describe('models', () => {
  let hub: TestHub
  let api: TestApi
  let key: string
  let accountId: string
  before(async () => {
    hub = await startHub(llamaRepo('acme/tiny'))
    api = await startApi({ env: { HEARTH_HUB_ENDPOINT: hub.url } })
    ;({ key, accountId } = await api.account())
  })
  after(async () => {
    await api[Symbol.asyncDispose]()
    await hub[Symbol.asyncDispose]()
  })

  const post = (path: string, body: object, as = key) => api.call('POST', path, { key: as, body })
  const get = (path: string, as = key) => api.call('GET', path, { key: as })
  const move = (id: string, body: object, as = key) =>
    api.call('PATCH', `${MODELS}/registry/${id}/lifecycle`, { key: as, body })
  const imported = async (as = key) =>
    (await post(`${MODELS}/hf/register`, { repo_id: 'acme/tiny', task_type: 'text-generation' }, as)).body
  const entry = async (id: string, as = key) =>
    (await get(`${MODELS}/registry`, as)).body.models.find(
      (one: { model_config_id: string }) => one.model_config_id === id,
    )

  it('are created from a version or a job; later versions under the same name join the model', async () => {
    const { db } = api.database
    const run = await buildRun(db, accountId)
    const [first, second] = [
      await buildVersion(db, accountId, { job_id: run.id }),
      await buildVersion(db, accountId),
    ]

    const made = await post(MODELS, { name: 'prices', job_id: run.id })
    const joined = await post(MODELS, { name: 'prices', version_id: second.id })

    assert.equal(made.status, 201, made.text)
    assert.equal(made.body.latest_version.version_id, first.id)
    assert.equal(joined.body.model_id, made.body.model_id)
    assert.equal(joined.body.version_count, 2)
    const versions = await get(`${MODELS}/${made.body.model_id}/versions`)
    assert.deepEqual(
      versions.body.versions.map((one: { version_id: string }) => one.version_id),
      [second.id, first.id],
    )
    assert.equal((await get(`${MODELS}/${made.body.model_id}`)).body.name, 'prices')
    assert.ok((await get(MODELS)).body.models.length > 0)
    assert.equal((await post(MODELS, { name: 'other', version_id: second.id })).status, 409)
  })

  it("require exactly one of version and job, from the caller's own account", async () => {
    const stranger = await api.account()
    const version = await buildVersion(api.database.db, accountId)

    assert.equal((await post(MODELS, { name: 'x' })).status, 422)
    assert.equal((await post(MODELS, { name: 'x', version_id: newId(), job_id: newId() })).status, 422)
    assert.equal((await post(MODELS, { name: 'x', version_id: version.id }, stranger.key)).status, 404)
    const made = await post(MODELS, { name: 'mine', version_id: version.id })
    for (const tail of ['', '/versions', '/lineage']) {
      assert.equal((await get(`${MODELS}/${made.body.model_id}${tail}`, stranger.key)).status, 404, tail)
    }
  })

  it('let an operator rename a version and an admin share it', async () => {
    const version = await buildVersion(api.database.db, accountId)
    const { body: model } = await post(MODELS, { name: 'renamed', version_id: version.id })
    const path = `${MODELS}/${model.model_id}/versions/${version.id}`
    const operator = await api.key(accountId, 'operator')

    const renamed = await api.call('PATCH', path, { key: operator, body: { name: 'spring' } })
    const barred = await api.call('PATCH', path, { key: operator, body: { visibility: 'public' } })
    const shared = await api.call('PATCH', path, { key, body: { visibility: 'public' } })

    assert.equal(renamed.body.name, 'spring')
    assert.equal(barred.status, 403)
    assert.equal(shared.body.visibility, 'public')
    assert.equal((await api.call('PATCH', path, { key, body: {} })).status, 422)
  })

  it('show their lineage back to datasets, runs, merges and hub repositories', async () => {
    const { db } = api.database
    const hubModel = await imported()
    const dataset = newId()
    await db
      .insertInto('dataset')
      .values({
        id: dataset,
        account_id: accountId,
        dataset_name: 'prices',
        description: '',
        status: 'ready',
        storage_format: 'csv',
        visibility: 'private',
      })
      .execute()
    const tune = await buildRun(db, accountId, {
      job_name: 'tune',
      dataset_id: dataset,
      base: JSON.stringify({ type: 'model_version', version_id: hubModel.version_id }),
    })
    const tuned = await buildVersion(db, accountId, {
      name: 'tuned',
      job_id: tune.id,
      dataset_id: dataset,
      base_model_version_id: hubModel.version_id,
    })
    const merge = await buildRun(db, accountId, { job_name: 'blend', job_type: 'merge' })
    const merged = await buildVersion(db, accountId, {
      name: 'blend',
      job_id: merge.id,
      base_model_version_id: hubModel.version_id,
    })
    await db
      .insertInto('version_source')
      .values([
        { version_id: merged.id, source_version_id: hubModel.version_id, role: 'base', position: 0 },
        { version_id: merged.id, source_version_id: tuned.id, role: 'source', weight: 1, position: 1 },
      ])
      .execute()
    const { body: model } = await post(MODELS, { name: 'blend', version_id: merged.id })

    const { status, body } = await get(`${MODELS}/${model.model_id}/lineage`)

    assert.equal(status, 200)
    const types = (body.nodes as { type: string }[]).map(({ type }) => type)
    assert.deepEqual(types.toSorted(), [
      'dataset',
      'hub_repo',
      'job',
      'merge',
      'model_config',
      'version',
      'version',
      'version',
    ])
    const relations = (body.edges as { relation: string }[]).map(({ relation }) => relation)
    assert.deepEqual(relations.toSorted(), [
      'based_on',
      'configured_by',
      'imported_as',
      'merged_from',
      'merged_from',
      'produced',
      'produced',
      'trained_on',
    ])
  })

  it('hide private versions of other accounts in their lineage', async () => {
    const { db } = api.database
    const stranger = await api.account()
    const secret = await buildVersion(db, stranger.accountId, { name: 'secret' })
    const version = await buildVersion(db, accountId, { base_model_version_id: secret.id })
    const { body: model } = await post(MODELS, { name: 'built on a secret', version_id: version.id })

    const { body, text } = await get(`${MODELS}/${model.model_id}/lineage`)

    assert.equal(body.nodes.length, 1)
    assert.doesNotMatch(text, /secret"/)
  })

  it('from the catalog and the hub are listed in one registry', async () => {
    const { model_config_id } = await imported()

    const { status, body } = await get(`${MODELS}/registry`)

    assert.equal(status, 200)
    const curated = body.models.find((one: { source: string }) => one.source === 'catalog')
    assert.doesNotMatch(curated.model_name, /^hf-/)
    const mine = await entry(model_config_id)
    assert.match(mine.model_name, /^hf-acme--tiny/)
    assert.equal(mine.visibility, 'public')
    assert.equal(mine.lifecycle_status, 'candidate')
    assert.equal(mine.is_base_model, true)
    assert.equal(mine.price_per_request, 0)
  })

  it('pass through each state, and become ready only through their test or an operator (3.5)', async () => {
    const other = await api.account()
    const { model_config_id: id, endpoint_id } = await imported()
    const endpoint = `${BUILDER}/endpoints/${endpoint_id}`

    assert.equal((await get(endpoint, other.key)).status, 403)
    assert.equal(await entry(id, other.key), undefined)
    assert.equal((await move(id, { lifecycle_status: 'preferred' })).status, 403)
    assert.equal((await move(id, { lifecycle_status: 'ready' })).status, 403)
    const promoted = await api.call('PATCH', `/api/v1/admin/hub-models/${id}/lifecycle`, {
      key: OPERATIONS_KEY,
      body: { lifecycle_status: 'ready' },
    })
    assert.equal(promoted.body.lifecycle_status, 'ready')
    const log = await api.call('GET', `/api/v1/admin/audit-log?subject_id=${id}`, { key: OPERATIONS_KEY })
    assert.deepEqual(
      [log.body.entries[0].action, log.body.entries[0].changes],
      ['overrideLifecycle', { lifecycle_status: { from: 'candidate', to: 'ready' } }],
    )
    assert.equal((await get(endpoint, other.key)).status, 200)
    assert.equal((await entry(id, other.key)).owned, false)
    for (const lifecycle_status of ['preferred', 'ready', 'preferred', 'candidate']) {
      assert.equal((await move(id, { lifecycle_status })).body.lifecycle_status, lifecycle_status)
    }
    assert.equal((await get(endpoint, other.key)).status, 403)
    assert.equal((await move(id, { lifecycle_status: 'ready' }, other.key)).status, 404)
    assert.equal((await move(id, { lifecycle_status: 'gone' })).status, 422)
    const unknown = await move('no-such', { lifecycle_status: 'ready' })
    assert.equal(unknown.status, 404)
    assert.match(unknown.body.error.message, /GET \/api\/builder\/v1\/models\/registry lists them/)
  })

  it('refuse inference and leave /v1/models when disabled, which requires a reason', async () => {
    const { model_config_id: id, endpoint_id } = await imported()
    const listed = async () =>
      (await api.call('GET', '/v1/models', { headers: { authorization: `Bearer ${key}` } })).text
    const infer = () =>
      post(`${BUILDER}/endpoints/${endpoint_id}/infer`, {
        input: { messages: [{ role: 'user', content: 'Hi' }] },
        sync: false,
      })

    assert.match(await listed(), /hf-acme--tiny/)
    assert.equal((await move(id, { lifecycle_status: 'disabled' })).status, 422)
    const disabled = await move(id, { lifecycle_status: 'disabled', reason: 'answers nonsense' })
    assert.equal(disabled.body.lifecycle_note, 'answers nonsense')
    await until(async () => (await infer()).status === 409)
    assert.doesNotMatch(await listed(), /hf-acme--tiny/)
    assert.equal((await move(id, { lifecycle_status: 'ready' })).status, 403)
    assert.equal((await move(id, { lifecycle_status: 'candidate' })).status, 200)
    await until(async () => (await infer()).status === 200)
  })

  it('are re-enabled by the importer that disabled them, but not after an operator did (3.5)', async () => {
    const { model_config_id: id, endpoint_id } = await imported()
    const { db } = api.database
    const override = (body: object) =>
      api.call('PATCH', `/api/v1/admin/hub-models/${id}/lifecycle`, { key: OPERATIONS_KEY, body })
    const other = await api.account()
    const disabled = { lifecycle_status: 'disabled', reason: 'for a while' }
    const status = async (lifecycle_status: string) => (await move(id, { lifecycle_status })).status

    assert.equal((await override({ lifecycle_status: 'ready' })).status, 200)
    for (const state of ['ready', 'preferred']) {
      for (let times = 0; times < 2; times++) assert.equal((await move(id, disabled)).status, 200)
      assert.equal((await get(`${BUILDER}/endpoints/${endpoint_id}`, other.key)).status, 403)
      assert.equal(await status(state), 200)
      assert.equal((await get(`${BUILDER}/endpoints/${endpoint_id}`, other.key)).status, 200)
    }

    await move(id, disabled)
    await db
      .updateTable('model_version')
      .set({ unusable: 'cut short' })
      .where('id', '=', (eb) => eb.selectFrom('hub_model').select('version_id').where('id', '=', id))
      .execute()
    assert.equal(await status('ready'), 403)

    assert.equal((await override({ lifecycle_status: 'ready' })).status, 200)
    await move(id, disabled)
    assert.equal((await override(disabled)).status, 200)
    assert.equal(await status('ready'), 403)
    // Neither another `disabled` nor a stop at `candidate` lets the importer re-enable it.
    await move(id, disabled)
    assert.equal(await status('ready'), 403)
    assert.equal(await status('candidate'), 200)
    await move(id, disabled)
    assert.equal(await status('preferred'), 403)
  })

  it('count as base models if they were disabled before `ready_at` was stored (4.5)', async () => {
    const owner = await api.account()
    const { model_config_id: id, endpoint_id } = await imported(owner.key)
    const { db } = api.database
    const { version_id } = await db
      .selectFrom('hub_model')
      .select('version_id')
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    await db
      .updateTable('model_version')
      .set({ lifecycle_status: 'disabled', ready_at: null })
      .where('id', '=', version_id)
      .execute()
    const migration = new URL('../../../../../db/migrations/0118-reopenable-versions.sql', import.meta.url)
    await sql.raw(readFileSync(migration, 'utf8')).execute(db)

    const deleted = await api.call('DELETE', `${BUILDER}/endpoints/${endpoint_id}`, {
      key: owner.key,
    })
    assert.equal(deleted.status, 409, deleted.text)
  })

  it('from the catalog are disabled for one account only', async () => {
    const other = await api.account()
    const endpoint = await buildEndpoint(api.database.db, accountId)
    const id = 'tabular-regression'
    const infer = () =>
      post(`${BUILDER}/endpoints/${endpoint.id}/infer`, { input: { instances: [] }, sync: false })

    assert.equal((await move(id, { lifecycle_status: 'disabled', reason: 'not now' })).status, 200)

    assert.equal((await entry(id)).lifecycle_status, 'disabled')
    assert.equal((await entry(id)).is_active, false)
    assert.equal((await entry(id, other.key)).lifecycle_status, 'ready')
    await until(async () => (await infer()).status === 409)
    const run = await post(`${BUILDER}/training/runs`, {
      job_name: 'x',
      dataset_id: newId(),
      model_config_id: id,
    })
    assert.equal(run.status, 409, run.text)
    assert.equal((await move(id, { lifecycle_status: 'candidate' })).status, 200)
    await until(async () => (await infer()).status === 200)
    for (const lifecycle_status of ['preferred', 'ready', 'disabled', 'ready', 'preferred', 'candidate']) {
      const moved = await move(id, { lifecycle_status, reason: 'because' })
      assert.equal(moved.body.lifecycle_status, lifecycle_status)
    }
    assert.equal((await move('absent', { lifecycle_status: 'ready' })).status, 404)
  })
})
