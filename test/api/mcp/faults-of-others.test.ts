import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import * as apiKeyRepository from '../../../db/repositories/platform/api-keys.ts'
import type { EndpointRow } from '../../../db/tables/models.ts'
import { connectMcp, taskClient } from '../../support/servers/clients/mcp-client.ts'
import { InferenceApi } from '../../support/servers/inference-api.ts'
import { addModel } from '../../support/servers/nodes/node.ts'

const OUTPUT = {
  $defs: { row: { type: 'number' } },
  type: 'object',
  properties: { predictions: { type: 'array', items: { $ref: '#/$defs/row' } } },
  required: ['predictions'],
}
const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }

/** Each test covers a complaint from users of other MCP servers. */
describe('known problems of other MCP servers', () => {
  let on: InferenceApi
  let warm: EndpointRow
  before(async () => {
    on = await InferenceApi.start()
    warm = await on.endpointOver(await on.loadedModel(), {
      name: 'rows.of.numbers',
      output_schema: JSON.stringify(OUTPUT),
    })
    await on.endpointOver(await addModel(on.api, { name: 'cold' }), { name: 'handle' })
  })
  after(() => on?.[Symbol.asyncDispose]())

  it('silent calls: a client with a progress token gets progress every few seconds', async () => {
    const cold = await on.endpointOver(await addModel(on.api, { name: 'cold' }))
    await using mcp = await connectMcp(on.api, on.caller.key)
    const progressTimes: number[] = []
    const leave = new AbortController()
    const call = { name: 'run_inference', arguments: { endpoint_id: cold.id, input: { instances: [1] } } }

    const pendingCall = mcp.client.callTool(call, {
      signal: leave.signal,
      timeout: 4_000,
      resetTimeoutOnProgress: true,
      onprogress: () => void progressTimes.push(performance.now()),
    })
    pendingCall.catch(() => {})
    while (progressTimes.length < 3) await sleep(100)
    leave.abort()

    const gaps = progressTimes.slice(1).map((at, index) => at - (progressTimes[index] ?? 0))
    assert.ok(gaps.every((ms) => ms < 4_000))
  }).timeout(60_000)

  it('long work without a handle: it is a protocol task, and its invocation is readable over REST', async () => {
    const mcp = taskClient(on.api, on.caller.key)

    const started = await mcp('tools/call', { name: 'handle', arguments: { instances: [1] } })
    const id = String(started.taskId).slice('invocation.'.length)
    const read = () => on.api.call('GET', `/api/builder/v1/invocations/${id}`, { key: on.caller.key })
    const { body: before } = await read()
    await mcp('tasks/cancel', { taskId: started.taskId })
    const cancelled = await mcp('tasks/get', { taskId: started.taskId })

    assert.equal(started.resultType, 'task')
    assert.equal(before.status, 'queued')
    assert.equal(cancelled.status, 'cancelled')
    assert.equal((await read()).body.status, 'failed')
  }).timeout(60_000)

  it('one dotted name hides every tool: ?names=safe lists no name with a dot', async () => {
    await using mcp = await connectMcp(on.api, on.caller.key, { search: '?names=safe' })

    const { tools } = await mcp.client.listTools()

    assert.ok(tools.every(({ name }) => /^[a-zA-Z0-9_-]{1,64}$/.test(name)))
    const tool = tools.find(({ name }) => name === 'rows_of_numbers')
    assert.equal(tool?._meta?.['hearth/slug'], 'rows.of.numbers')
    assert.equal((await mcp.call('rows_of_numbers', { instances: [1] })).isError, false)
  })

  it('too many tools fill the context: a limited key lists only its own tools', async () => {
    const key = await on.api.database.db.transaction().execute(
      async (trx) =>
        (
          await apiKeyRepository.createApiKey(trx, {
            accountId: on.caller.accountId,
            name: 'agent',
            role: 'operator',
            tools: ['rows.*', 'get_endpoint'],
          })
        ).key,
    )
    await using mcp = await connectMcp(on.api, key)

    const { tools } = await mcp.client.listTools()

    assert.deepEqual(
      tools.map(({ name }) => name),
      ['get_endpoint', 'rows.of.numbers'],
    )
  })

  it('lost output schemas and structured results: both arrive unchanged', async () => {
    await using mcp = await connectMcp(on.api, on.caller.key)

    const { tools } = await mcp.client.listTools()
    const { body, text } = await mcp.call('rows.of.numbers', { instances: [1, 2] })

    const tool = tools.find(({ name }) => name === 'rows.of.numbers')
    assert.deepEqual(tool?.outputSchema, OUTPUT)
    assert.deepEqual(body, { predictions: [1, 2], weights: 'echo' })
    assert.deepEqual(JSON.parse(text), body)
  })

  it('a session for every call: a call needs no handshake, and any gateway serves it', async () => {
    const {
      statusCode,
      headers: answered,
      body,
    } = await request(`${on.api.baseUrl}/mcp`, {
      method: 'POST',
      headers: { ...headers, authorization: `Bearer ${on.caller.key}` },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'rows.of.numbers', arguments: { instances: [9] } },
      }),
    })

    assert.equal(statusCode, 200)
    assert.equal(answered['mcp-session-id'], undefined)
    assert.match(await body.text(), /"predictions":\[9\]/)
    assert.equal(warm.name, 'rows.of.numbers')
    for (const method of ['GET', 'DELETE']) {
      assert.equal((await on.api.call(method, '/mcp', { key: on.caller.key })).status, 405)
    }
  })
})
