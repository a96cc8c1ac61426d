import assert from 'node:assert/strict'
import * as endpointChangeRepository from '../../../db/repositories/endpoints/changes.ts'
import * as apiKeyRepository from '../../../db/repositories/platform/api-keys.ts'
import type { EndpointRow } from '../../../db/tables/models.ts'
import { newId } from '../../../domain/ids.ts'
import { buildEndpoint, PUBLIC_LISTING } from '../../support/builders/build-endpoint.ts'
import { addLlmVersion, versionRef } from '../../support/builders/models/merges.ts'
import {
  connectMcp,
  type McpClient,
  REVISIONS,
  taskClient,
} from '../../support/servers/clients/mcp-client.ts'
import { InferenceApi } from '../../support/servers/inference-api.ts'
import { addModel, until } from '../../support/servers/nodes/node.ts'

const OPERATIONS = ['training.merge', 'training.retrain_on']

describe('the MCP tools of an account', () => {
  let on: InferenceApi
  let warm: EndpointRow
  before(async () => {
    on = await InferenceApi.start()
    warm = await on.endpointOver(await on.loadedModel(), {
      name: 'sales.churn-2',
      output_schema: JSON.stringify({
        type: 'object',
        properties: { predictions: { type: 'array' } },
        required: ['predictions'],
      }),
    })
  })
  after(() => on?.[Symbol.asyncDispose]())

  const namesOf = async ({ client }: McpClient): Promise<string[]> =>
    (await client.listTools()).tools.map(({ name }) => name)
  const limited = (...tools: string[]) =>
    on.api.database.db.transaction().execute(async (trx) => {
      const { accountId } = on.caller
      return (await apiKeyRepository.createApiKey(trx, { accountId, name: 'agent', role: 'operator', tools }))
        .key
    })

  const noteChange = (id: string) =>
    on.api.database.db.transaction().execute((trx) => endpointChangeRepository.noteEndpointChange(trx, [id]))

  for (const revision of REVISIONS) {
    it(`are its endpoints and the operations for clients of ${revision}, under names that they accept`, async () => {
      await using slugs = await connectMcp(on.api, on.caller.key, { revision })
      await using safe = await connectMcp(on.api, on.caller.key, { revision, search: '?names=safe' })

      const [bySlug, bySafeName] = [await namesOf(slugs), await namesOf(safe)]

      assert.deepEqual(bySlug.slice(15), ['sales.churn-2', ...OPERATIONS])
      assert.deepEqual(bySafeName.slice(15), ['sales_churn-2', 'training_merge', 'training_retrain_on'])
      for (const client of [slugs, safe]) {
        for (const name of ['sales.churn-2', 'sales_churn-2']) {
          const { isError, body, text } = await client.call(name, { instances: [3] })
          assert.equal(isError, false, text)
          assert.deepEqual(body.predictions, [3])
        }
      }
    })

    it(`accept the input of the endpoint as their arguments, from clients of ${revision}`, async () => {
      await using mcp = await connectMcp(on.api, on.caller.key, { revision })

      const { _meta: fault } = await mcp.client.callTool({
        name: 'sales.churn-2',
        arguments: { instances: [true] },
      })
      const wrong = await mcp.call('sales.churn-2', { instances: [true] })
      const { _meta } = await mcp.client.callTool({ name: 'sales.churn-2', arguments: { instances: [1] } })

      assert.equal(wrong.isError, true)
      assert.match(wrong.text, /^Invalid arguments: instances\[0\]: /)
      const { details } = (fault ?? {})['hearth/error'] as { details: { issues: { loc: unknown[] }[] } }
      assert.deepEqual(
        details.issues.map(({ loc }) => loc),
        [['instances', 0]],
      )
      const id = String(_meta?.['hearth/invocation_id'])
      const { body } = await on.api.call('GET', `/api/builder/v1/invocations/${id}`, { key: on.caller.key })
      assert.equal(body.slug, 'sales.churn-2')
      assert.equal(body.status, 'completed')
      const { surface } = await on.api.database.db
        .selectFrom('task')
        .select('surface')
        .where('id', '=', body.task_id)
        .executeTakeFirstOrThrow()
      assert.equal(surface, 'mcp')
    })
  }

  it('start jobs that the agent follows by id', async () => {
    const { accountId, key } = await on.api.account()
    const base = versionRef(await addLlmVersion(on.api, accountId, { model: {} }))
    const columns = { adapter: {}, base_model_version_id: base.version_id }
    const adapters = [versionRef(await addLlmVersion(on.api, accountId, columns))]
    await using mcp = await connectMcp(on.api, key)

    const { isError, body, text } = await mcp.call('training_merge', { name: 'merged', base, adapters })
    const wrong = await mcp.call('training.retrain_on', { job_name: 'again' })

    assert.equal(isError, false, text)
    assert.deepEqual([body.slug, body.status, body.task_id], ['training.merge', 'queued', null])
    assert.match(body.note, new RegExp(`get_training_run with run_id "${body.job_id}"`))
    assert.equal((await mcp.call('get_training_run', { run_id: body.job_id })).body.job_name, 'merged')
    assert.match(wrong.text, /^Invalid arguments: model_config_id: Field required/)
  })

  it('include offered endpoints of other accounts, but no private ones', async () => {
    const { key } = await on.api.account()
    const offered = await buildEndpoint(on.api.database.db, on.caller.accountId, {
      ...PUBLIC_LISTING,
      name: 'for-all',
    })
    await noteChange(offered.id)
    await using mcp = await connectMcp(on.api, key)

    await until(async () => (await namesOf(mcp)).includes(offered.name))

    assert.deepEqual((await namesOf(mcp)).slice(15), ['for-all', ...OPERATIONS])
    await assert.rejects(mcp.call('sales.churn-2', { instances: [1] }), /Unknown tool: sales\.churn-2/)
  })

  it('are limited to those of the key, which sees nothing else in the account', async () => {
    await using mcp = await connectMcp(on.api, await limited('sales.*', 'get_endpoint'))

    const names = await namesOf(mcp)
    const allowed = await mcp.call('sales.churn-2', { instances: [5] })

    assert.deepEqual(names, ['get_endpoint', 'sales.churn-2'])
    assert.deepEqual(allowed.body.predictions, [5])
    assert.equal((await mcp.call('get_endpoint', { endpoint_id: warm.id })).isError, false)
    for (const name of ['list_endpoints', 'run_inference', 'training.merge']) {
      await assert.rejects(mcp.call(name, {}), /Unknown tool/)
    }
    assert.doesNotMatch(mcp.client.getInstructions() ?? '', /list_endpoints|run_inference|create_dataset/)
    await using asking = await connectMcp(
      on.api,
      await limited('run_inference', 'list_endpoints', 'get_endpoint'),
    )
    assert.match(asking.client.getInstructions() ?? '', /To call a model: list_endpoints/)
    assert.doesNotMatch(asking.client.getInstructions() ?? '', /create_dataset/)
    assert.deepEqual((await mcp.client.listResources()).resources, [])
    assert.deepEqual((await mcp.client.listPrompts()).prompts, [])
    await assert.rejects(mcp.client.readResource({ uri: `hearth://datasets/${newId()}/rows` }))
  })

  it('create invocations that a limited key reads as tasks and over REST, even when the endpoint is paused', async () => {
    const action = '/api/builder/v1/actions/slow-one'
    const cold = await on.endpointOver(await addModel(on.api, { name: 'slow' }), { name: 'slow-one' })
    await noteChange(cold.id)
    const mine = await limited('slow-*')
    await until(async () => (await on.api.call('GET', action, { key: mine })).status === 200)
    const foreign = await limited('sales.*')
    const call = taskClient(on.api, mine)
    const { taskId } = await call('tools/call', { name: 'slow-one', arguments: { instances: [1] } })
    const invocation = `/api/builder/v1/invocations/${taskId.slice('invocation.'.length)}`
    const paused = await on.api.call('PATCH', `/api/builder/v1/endpoints/${cold.id}`, {
      key: on.caller.key,
      body: { status: 'paused' },
    })

    assert.equal(paused.status, 200)
    await until(async () => (await on.api.call('GET', action, { key: mine })).status === 403)
    assert.equal((await call('tasks/get', { taskId })).status, 'working')
    assert.equal((await on.api.call('GET', invocation, { key: mine })).status, 200)
    for (const method of ['tasks/get', 'tasks/cancel'])
      await assert.rejects(taskClient(on.api, foreign)(method, { taskId }), /there is no task with this id/)
    assert.equal((await on.api.call('GET', invocation, { key: foreign })).status, 404)
    await call('tasks/cancel', { taskId })
    assert.equal((await call('tasks/get', { taskId })).status, 'cancelled')
    await assert.rejects(call('tasks/get', { taskId: 'invocation.none' }), /there is no task with this id/)
  })

  it("require the operator role and one of the account's keys", async () => {
    const viewer = await on.api.key(on.caller.accountId, 'viewer')
    const operator = await on.api.key(on.caller.accountId, 'operator')
    const calls = { 'sales.churn-2': { instances: [5] }, 'training.merge': { name: 'x' } }

    for (const [name, args] of Object.entries(calls)) {
      await using reading = await connectMcp(on.api, viewer)
      await using working = await connectMcp(on.api, operator)
      const refused = await reading.call(name, args)
      assert.equal(refused.isError, true)
      assert.match(refused.text, /^This requires a key with the role operator; yours has the role viewer\.$/)
      assert.doesNotMatch((await working.call(name, args)).text, /role/)
    }
    await using foreign = await connectMcp(on.api, (await on.api.account()).key)
    await assert.rejects(foreign.call('sales.churn-2', { instances: [5] }), /Unknown tool/)
  })

  it('are not mixed up between two keys without any manifest tools', async () => {
    for (const name of ['list_models', 'get_endpoint']) {
      await using mcp = await connectMcp(on.api, await limited(name))

      assert.deepEqual(await namesOf(mcp), [name])
    }
    await using none = await connectMcp(on.api, await limited('nothing-of-this-name'))
    assert.deepEqual(await namesOf(none), [])
  })

  it('let run_inference wait with a limited key that includes it', async () => {
    const cold = await on.endpointOver(await addModel(on.api, { name: 'cold' }), { name: 'cold-one' })
    await using mcp = await connectMcp(on.api, await limited('run_inference'))
    const progressMessages: string[] = []

    const { structuredContent } = await mcp.client.callTool(
      { name: 'run_inference', arguments: { endpoint_id: cold.id, input: { instances: [1] } } },
      {
        onprogress: ({ message = '' }) => {
          progressMessages.push(message)
          void on.api.database.db
            .updateTable('task')
            .set({ status: 'succeeded', result: Buffer.from('{"predictions":[]}'), completed_at: new Date() })
            .where('endpoint_id', '=', cold.id)
            .execute()
        },
      },
    )

    assert.deepEqual((structuredContent as { result: object }).result, { predictions: [] })
    assert.equal(progressMessages[0], 'queued')
  }).timeout(60_000)

  it('notify listening clients of their own account about changes', async () => {
    let changes = 0
    const listChanged = { tools: { autoRefresh: false, debounceMs: 0, onChanged: () => void (changes += 1) } }
    await using mcp = await connectMcp(on.api, on.caller.key, { revision: '2026-07-28', listChanged })
    const { key, accountId } = await on.api.account()
    await using other = await connectMcp(on.api, key)
    const stop = await mcp.client.listen({ toolsListChanged: true })
    await buildEndpoint(on.api.database.db, accountId, { name: 'not-theirs' })
    await until(async () => (await namesOf(other)).includes('not-theirs'))
    const before = changes

    const { status } = await on.api.call('PATCH', `/api/builder/v1/endpoints/${warm.id}`, {
      key: on.caller.key,
      body: { description: 'predicts churn' },
    })

    assert.equal(status, 200)
    await until(() => changes > before)
    await stop.close()
  })

  it('stop notifying a listening client when its key is revoked', async () => {
    let changes = 0
    const listChanged = { tools: { autoRefresh: false, debounceMs: 0, onChanged: () => void (changes += 1) } }
    const { db } = on.api.database
    const made = await db.transaction().execute((trx) =>
      apiKeyRepository.createApiKey(trx, {
        accountId: on.caller.accountId,
        name: 'listener',
        role: 'operator',
      }),
    )
    await using mcp = await connectMcp(on.api, made.key, { revision: '2026-07-28', listChanged })
    await mcp.client.listen({ toolsListChanged: true })
    const change = (description: string) =>
      on.api.call('PATCH', `/api/builder/v1/endpoints/${warm.id}`, {
        key: on.caller.key,
        body: { description },
      })
    await change('heard')
    await until(() => changes > 0)

    const path = `/api/builder/v1/keys/${made.row.id}`
    assert.equal((await on.api.call('DELETE', path, { key: on.caller.key })).status, 204)
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    const before = changes
    await change('unheard')
    await new Promise((resolve) => setTimeout(resolve, 500))

    assert.equal(changes, before)
  })
})
