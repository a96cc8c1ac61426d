import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import * as apiKeyRepository from '../../../db/repositories/platform/api-keys.ts'
import type { Manifest } from '../../../schemas/tool.ts'
import { SERVED } from '../../contract/routes.ts'
import { buildEndpoint, buildHeldTask } from '../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'

const BUILDER = '/api/builder/v1'
/** Every manifest has the operations; only a key can be limited to other tools. */
const OPERATIONS = ['training.merge', 'training.retrain_on']

describe('a key that is limited to tools', () => {
  let api: TestApi
  let accountId: string
  let open: string
  before(async () => {
    api = await startApi({ env: { HEARTH_FEATURES: 'webhooks', HEARTH_MEMORY: '1' } })
    ;({ accountId, key: open } = await api.account())
    const { db } = api.database
    await buildEndpoint(db, accountId, { name: 'sales-churn' })
    await buildEndpoint(db, accountId, { name: 'sales-forecast', task_type: 'chat', source: 'catalog' })
    await buildEndpoint(db, accountId, { name: 'support-chat' })
  })
  after(() => api[Symbol.asyncDispose]())

  const limited = (...tools: string[]) =>
    api.database.db
      .transaction()
      .execute(
        async (trx) =>
          (await apiKeyRepository.createApiKey(trx, { accountId, name: 'agent', role: 'admin', tools })).key,
      )
  const namesFor = async (key: string, gateway = api) => {
    const { status, body } = await gateway.call<Manifest>('GET', `${BUILDER}/mcp/manifest`, { key })
    assert.equal(status, 200)
    return body.tools.map(({ name }) => name)
  }

  for (const [tools, expected] of [
    [['sales-*'], ['sales-churn', 'sales-forecast']],
    [
      ['sales-churn', 'training.merge'],
      ['sales-churn', 'training.merge'],
    ],
    [['kind:llm'], ['sales-forecast']],
    [
      ['kind:operation', 'kind:llm', 'training.*'],
      ['training.merge', 'training.retrain_on'],
    ],
    [['stability:stable'], ['training.merge', 'training.retrain_on']],
    [['nothing'], []],
  ] as const) {
    it(`sees only ${tools.join(', ')}`, async () => {
      const key = await limited(...tools)

      assert.deepEqual(await namesFor(key), expected)
      for (const name of ['sales-churn', 'sales-forecast', 'support-chat', 'training.merge']) {
        const { status } = await api.call('GET', `${BUILDER}/mcp/manifest/${name}`, { key })
        assert.equal(status, (expected as readonly string[]).includes(name) ? 200 : 404, name)
      }
    })
  }

  it('is invalid for older gateways, which do not know tool limits', async () => {
    const key = await limited('sales-*')
    const asBefore = (text: string) =>
      apiKeyRepository.findApiKey(api.database.db, hash('sha256', text, 'buffer'))

    assert.equal(await asBefore(key), undefined)
    assert.equal((await asBefore(open))?.account_id, accountId)
  })

  it('has its own ETag', async () => {
    const key = await limited('sales-*')
    const tagFor = async (of: string) =>
      String((await api.call('GET', `${BUILDER}/mcp/manifest`, { key: of })).headers['etag'])

    const etag = await tagFor(key)
    assert.notEqual(etag, await tagFor(open))
    assert.equal(etag, await tagFor(await limited('sales-*', 'sales-churn')))
  })

  it('gets 403 with an explanation from every other route that accepts keys', async () => {
    const key = await limited('sales-*')
    const headers = { 'x-account-id': accountId }
    const taken = SERVED.filter(({ route }) => route.auth === 'api-key' || route.auth === 'cohort')
    for (const { route, path } of taken) {
      const url = path.replaceAll(/\{\w+\}/g, () => 'sales-churn')
      const { status, body } = await api.call(route.method, url, {
        key,
        headers,
        ...(route.body && { body: {} }),
      })
      if (route.forLimitedKeys) assert.notEqual(status, 403, route.operationId)
      else {
        assert.equal(status, 403, route.operationId)
        assert.match(body.error.message, /limited to certain tools/)
      }
    }
    const spared = taken.filter(({ route }) => route.forLimitedKeys).map(({ route }) => route.operationId)
    for (const operation of ['getManifest', 'getToolManifest', 'getTask', 'cancelTask', 'invokeAction'])
      assert.ok(spared.includes(operation))
    for (const operation of ['infer', 'listEndpoints', 'createChatCompletion', 'createTrainingRun'])
      assert.ok(!spared.includes(operation))
    assert.equal((await api.call('GET', `${BUILDER}/health`, { key })).status, 200)
  })

  it('sees and invokes only its own actions', async () => {
    const key = await limited('sales-*', 'training.merge')
    const listed = await api.call('GET', `${BUILDER}/actions`, { key })
    const detail = (slug: string) => api.call('GET', `${BUILDER}/actions/${slug}`, { key })
    const invoke = (slug: string, by = key) =>
      api.call('POST', `${BUILDER}/actions/${slug}:invoke`, { key: by, body: { input: {}, sync: false } })

    assert.deepEqual(
      listed.body.actions.map(({ slug }: { slug: string }) => slug),
      ['sales-forecast', 'sales-churn', 'training.merge'],
    )
    assert.deepEqual(
      [(await detail('sales-churn')).status, (await detail('support-chat')).status],
      [200, 403],
    )
    const refused = await invoke('support-chat')
    assert.deepEqual([refused.status, refused.body.error.code], [403, 'forbidden'])
    const mine = await invoke('sales-churn')
    assert.equal(mine.status, 202)
    const path = `${BUILDER}/invocations/${mine.body.invocation_id}`
    assert.equal((await api.call('GET', path, { key })).status, 200)
    assert.equal((await api.call('GET', path, { key: await limited('support-chat') })).status, 404)
    const endpoint = `${BUILDER}/endpoints/sales-churn`
    await api.call('PATCH', endpoint, { key: open, body: { status: 'paused' } })
    assert.equal((await api.call('GET', path, { key })).status, 200)
    await api.call('PATCH', endpoint, { key: open, body: { status: 'active' } })
  })

  it('reads and cancels only the tasks of its tools', async () => {
    const task = await buildHeldTask(api.database.db, accountId)
    const { endpoint_id } = await api.database.db
      .selectFrom('task')
      .select('endpoint_id')
      .where('id', '=', task)
      .executeTakeFirstOrThrow()
    const path = `${BUILDER}/tasks/${task}`
    const mine = await limited(`endpoint-${endpoint_id}`)
    const foreign = await limited('sales-*')

    assert.equal((await api.call('GET', path, { key: foreign })).status, 404)
    assert.equal((await api.call('POST', `${path}:cancel`, { key: foreign })).status, 404)
    assert.equal((await api.call('GET', path, { key: mine })).status, 200)
    assert.equal((await api.call('GET', path, { key: open })).status, 200)
  })

  for (const [env, expected] of [
    [{ HEARTH_TOOL_KINDS: 'llm' }, ['sales-forecast', ...OPERATIONS]],
    [
      { HEARTH_TOOL_SLUGS: 'sales-*, support-chat' },
      ['sales-churn', 'sales-forecast', 'support-chat', ...OPERATIONS],
    ],
    [{ HEARTH_TOOL_STABILITY: 'beta' }, OPERATIONS],
  ] as const) {
    it(`sees no more tools than the configuration allows: ${JSON.stringify(env)}`, async () => {
      await using gateway = await startApi({ database: api.database, env })

      assert.deepEqual(await namesFor(open, gateway), expected)
      assert.deepEqual(
        await namesFor(await limited('sales-*'), gateway),
        expected.filter((name) => name.startsWith('sales-')),
      )
    })
  }

  it('is created and listed through the admin routes', async () => {
    const path = `/api/v1/admin/accounts/${accountId}/keys`
    const made = await api.call('POST', path, {
      key: 'ops-test-key',
      body: { name: 'agent', tools: ['sales-*', 'kind:llm'] },
    })
    assert.equal(made.status, 201)
    assert.deepEqual(made.body.tools, ['sales-*', 'kind:llm'])
    const { body } = await api.call('GET', path, { key: 'ops-test-key' })
    assert.deepEqual(body.keys[0].tools, ['sales-*', 'kind:llm'])
    assert.equal(body.keys.at(-1).tools, null)

    for (const tools of [[], ['Sales'], ['kind:other'], ['stability:'], ['a', 'a'], 'sales-*']) {
      const { status } = await api.call('POST', path, { key: 'ops-test-key', body: { name: 'x', tools } })
      assert.equal(status, 422, JSON.stringify(tools))
    }
  })
})
