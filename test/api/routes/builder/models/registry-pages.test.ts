import assert from 'node:assert/strict'
import { sql } from 'kysely'
import { newId } from '../../../../../domain/ids.ts'
import { buildRun, buildVersion } from '../../../../support/builders/build-endpoint.ts'
import { llamaRepo } from '../../../../support/builders/models/hub-repos.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../../../../support/servers/api.ts'
import { startHub, type TestHub } from '../../../../support/servers/hub-server.ts'

const BUILDER = '/api/builder/v1'

describe('the model registry', () => {
  let hub: TestHub
  let api: TestApi
  before(async () => {
    hub = await startHub(llamaRepo('acme/plain'), {
      ...llamaRepo('acme/Quantized'),
      files: { 'model.Q4_K_M.gguf': Buffer.alloc(2_048) },
    })
    api = await startApi({ env: { HEARTH_HUB_ENDPOINT: hub.url } })
  })
  after(async () => {
    await api[Symbol.asyncDispose]()
    await hub[Symbol.asyncDispose]()
  })

  const register = async (key: string, repo_id: string) => {
    const body = { repo_id, task_type: 'text-generation' }
    return (await api.call('POST', `${BUILDER}/models/hf/register`, { key, body })).body
  }
  const registry = async (key: string, query = '') =>
    (await api.call('GET', `${BUILDER}/models/registry${query}`, { key })).body
  const remove = (key: string, id: string) => api.call('DELETE', `${BUILDER}/endpoints/${id}`, { key })
  const move = (id: string, lifecycle_status: string) =>
    api.call('PATCH', `/api/v1/admin/hub-models/${id}/lifecycle`, {
      key: OPERATIONS_KEY,
      body: { lifecycle_status, reason: 'by hand' },
    })

  it('shows what runs a model and what it is for', async () => {
    const { key } = await api.account()
    await register(key, 'acme/plain')
    await register(key, 'acme/Quantized')

    const { models } = await registry(key)

    const summaries = models.map((one: Record<string, unknown>) => [
      one['repo_id'],
      one['framework'],
      one['category'],
    ])
    assert.deepEqual(summaries.slice(0, 2), [
      ['acme/Quantized', 'llama.cpp', 'nlp'],
      ['acme/plain', 'transformers', 'nlp'],
    ])
  })

  it('is paged to its end, with the catalog after the last import', async () => {
    const { key } = await api.account()
    const other = await api.account()
    await register(key, 'acme/plain')
    await register(key, 'acme/Quantized')
    const whole = await registry(key)
    const names: string[] = []
    let cursor: string | null = ''
    for (let page = 0; cursor !== null && page < 10; page++) {
      const body = await registry(key, `?limit=1${cursor ? `&cursor=${cursor}` : ''}`)
      names.push(...body.models.map((one: { model_name: string }) => one.model_name))
      cursor = body.next_cursor
    }

    assert.equal(whole.next_cursor, null)
    assert.deepEqual(
      names,
      whole.models.map((one: { model_name: string }) => one.model_name),
    )
    const first = await registry(key, '?limit=1')
    assert.ok(first.next_cursor)
    const stolen = await api.call('GET', `${BUILDER}/models/registry?cursor=${first.next_cursor}`, {
      key: other.key,
    })
    assert.equal(stolen.status, 422)
  })

  it('and /v1/models list all models, even beyond a thousand', async () => {
    const { key, accountId } = await api.account()
    const version = await buildVersion(api.database.db, accountId)
    const ids = Array.from({ length: 2_050 }, () => newId())
    await sql`
      insert into endpoint (id, account_id, name, visibility, review_status, source, task_type, version_id, model_key,
        runtime_profile, input_schema, output_schema, example_input, example_output)
      select id, ${accountId}, 'many-' || id, 'account', 'active', 'trained', 'chat', ${version.id}, ${version.model_key},
        'llm-transformers', '{}', '{}', '{}', '{}'
      from unnest(${ids}::uuid[]) as id`.execute(api.database.db)

    const { body } = await api.call('GET', '/v1/models', { headers: { authorization: `Bearer ${key}` } })

    const listed = new Set(body.data.map(({ id }: { id: string }) => id))
    assert.deepEqual([listed.size >= ids.length, ids.every((id) => listed.has(id))], [true, true])
  })

  it('drops an import with its endpoint, and the repository can be imported again under its name', async () => {
    const { key } = await api.account()
    hub.put(llamaRepo('gone/again'))
    const first = await register(key, 'gone/again')
    assert.equal(first.model_name, 'hf-gone--again')

    assert.equal((await remove((await api.account()).key, first.endpoint_id)).status, 403)
    assert.equal((await remove(key, first.endpoint_id)).status, 204)

    assert.equal((await remove(key, first.endpoint_id)).status, 404)
    const { models } = await registry(key)
    assert.ok(!models.some((one: { repo_id: string | null }) => one.repo_id === 'gone/again'))
    const second = await register(key, 'gone/again')
    assert.equal(second.model_name, 'hf-gone--again')
    assert.notEqual(second.version_id, first.version_id)
  })

  it('keeps an import that was ever ready, even when it is disabled or a candidate again (4.5)', async () => {
    const { key } = await api.account()
    const other = await api.account()
    hub.put(llamaRepo('used/much'))
    const { endpoint_id, model_config_id } = await register(key, 'used/much')
    await move(model_config_id, 'ready')
    const offered = await remove(key, endpoint_id)
    assert.equal(offered.status, 409)
    assert.match(offered.body.error.message, /base models cannot be deleted; disable this one/)
    assert.equal((await remove(other.key, endpoint_id)).status, 409)
    for (const state of ['disabled', 'candidate']) {
      await move(model_config_id, state)
      assert.equal((await remove(key, endpoint_id)).status, 409, state)
    }
    assert.equal((await api.call('GET', `${BUILDER}/endpoints/${endpoint_id}`, { key })).status, 200)
  })

  it('lets an import that was never ready be deleted once it is disabled', async () => {
    const { key } = await api.account()
    hub.put(llamaRepo('never/ready'))
    const { endpoint_id, model_config_id } = await register(key, 'never/ready')
    await move(model_config_id, 'disabled')

    assert.equal((await remove(key, endpoint_id)).status, 204)
  })

  it('keeps an import that other versions are built on', async () => {
    const { key, accountId } = await api.account()
    hub.put(llamaRepo('base/of'))
    const { endpoint_id, version_id } = await register(key, 'base/of')
    const run = await buildRun(api.database.db, accountId)
    await buildVersion(api.database.db, accountId, { job_id: run.id, base_model_version_id: version_id })

    const { status, body } = await remove(key, endpoint_id)

    assert.equal(status, 409)
    assert.match(body.error.message, /built on this import/)
    assert.equal((await api.call('GET', `${BUILDER}/endpoints/${endpoint_id}`, { key })).status, 200)
  })
})
