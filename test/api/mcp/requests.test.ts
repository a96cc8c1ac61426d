import assert from 'node:assert/strict'
import { sql } from 'kysely'
import { loggedCall } from '../../../api/mcp/message.ts'
import { newId } from '../../../domain/ids.ts'
import { OPERATIONS_KEY, startApi, type TestApi } from '../../support/servers/api.ts'
import { connectMcp } from '../../support/servers/clients/mcp-client.ts'

const LIST = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
const accept = 'application/json, text/event-stream'

describe('requests to /mcp', () => {
  let api: TestApi
  let key: string
  before(async () => {
    api = await startApi()
    ;({ key } = await api.account())
  })
  after(() => api[Symbol.asyncDispose]())

  const post = (headers: Record<string, string>, body: object = LIST) =>
    api.call('POST', '/mcp', { key, body, headers: { accept, ...headers } })
  const host = () => new URL(api.baseUrl).host

  it('are rejected from foreign web pages, and for host names that merely resolve to this machine', async () => {
    const refused = [
      { origin: 'http://evil.example.com' },
      { origin: 'null' },
      { origin: 'http://localhost:1' },
      { host: 'evil.example.com' },
      { host: 'evil.example.com', origin: 'http://evil.example.com' },
    ]

    for (const headers of refused) {
      const { status, body } = await post(headers as never)
      assert.equal(status, 403, JSON.stringify(headers))
      assert.equal(body.error.data.code, 'forbidden')
    }
    for (const headers of [{}, { origin: api.baseUrl }, { host: host().replace('127.0.0.1', 'localhost') }]) {
      assert.equal((await post(headers as never)).status, 200, JSON.stringify(headers))
    }
  })

  it('are accepted from pages of the URL that several gateways share, which clients also see', async () => {
    const publicUrl = 'https://hearth.example.com'
    await using shared = await startApi({ database: api.database, env: { HEARTH_PUBLIC_URL: publicUrl } })
    const from = async (origin: string) => {
      const headers = { accept, host: 'hearth.example.com', origin }
      return (await shared.call('POST', '/mcp', { key, body: LIST, headers })).status
    }

    assert.deepEqual([await from(publicUrl), await from('https://evil.example.com')], [200, 403])
    const metadata = await shared.call('GET', '/.well-known/oauth-protected-resource/mcp')
    const me = await shared.call('GET', '/api/builder/v1/me', { key })
    assert.deepEqual([metadata.body.resource, me.body.base_url], [`${publicUrl}/mcp`, publicUrl])
    const { rows } = await sql<{ base_url: string }>`select base_url from gateway`.execute(api.database.db)
    assert.deepEqual(
      rows.map((row) => row.base_url).toSorted(),
      [api.baseUrl, shared.baseUrl].toSorted(),
      'nodes reach each gateway at its own URL',
    )
  })

  it("get an error in the protocol's format when they cannot be parsed", async () => {
    const raw = (text: string, contentType = 'application/json') =>
      api.call('POST', '/mcp', { key, raw: text, headers: { accept, 'content-type': contentType } })

    const [broken, form, deep, empty] = [
      await raw('{"jsonrpc":'),
      await raw('a=1', 'application/x-www-form-urlencoded'),
      await raw(`${'['.repeat(100)}${']'.repeat(100)}`),
      await raw('{}'),
    ]

    assert.deepEqual([broken.status, broken.body.error.code], [400, -32_700])
    assert.equal(form.status, 415)
    assert.equal(deep.status, 400)
    assert.equal(empty.status, 400)
    for (const { body } of [broken, form, deep]) assert.deepEqual([body.jsonrpc, body.id], ['2.0', null])
  })

  for (const [method, params, expected] of [
    ['tools/call', {}, /^Invalid params for tools\/call: params\.name: Field required\.$/],
    ['tools/call', { name: 3 }, /params\.name: must be a string\.$/],
    ['tools/call', { name: 'list_models', arguments: [] }, /params\.arguments: must be an object\.$/],
    ['tools/list', { cursor: 3 }, /params\.cursor: must be a string\.$/],
    ['resources/read', {}, /params\.uri: Field required\.$/],
    [
      'prompts/get',
      { name: 'merge_models', arguments: { a: 1 } },
      /params\.arguments\.a: must be a string\.$/,
    ],
    [
      'completion/complete',
      { ref: { type: 'x' }, argument: { name: 'a', value: 'b' } },
      /params\.ref\.type: /,
    ],
    ['initialize', { protocolVersion: 1 }, /params\.\w+: /],
  ] as const) {
    it(`get an error that names the wrong parameter: ${method} ${JSON.stringify(params)}`, async () => {
      const { status, body } = await post({}, { ...LIST, method, params })

      assert.deepEqual([status, body.id, body.error.code], [200, 1, -32_602])
      assert.match(body.error.message, expected)
      assert.doesNotMatch(body.error.message, /invalid_type|[[{\n]/)
    })
  }

  it('with an unknown revision get the list of supported ones in both formats', async () => {
    const version = '2030-01-01'
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': version,
      'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    }
    const headers = { 'mcp-protocol-version': version }

    const [old, recent] = [await post(headers), await post(headers, { ...LIST, params: { _meta } })]

    assert.deepEqual([old.status, old.body.id, old.body.error.code], [400, null, -32_000])
    assert.deepEqual([recent.status, recent.body.id, recent.body.error.code], [400, 1, -32_022])
    for (const { body } of [old, recent])
      assert.match(body.error.message, /^Unsupported protocol version: 2030-01-01 .*2026-07-28, 2025-11-25/)
    assert.deepEqual(recent.body.error.data, { supported: ['2026-07-28'], requested: version })
  })

  it('are logged with their method and tool, without arguments', () => {
    const message = { method: 'tools/call', params: { name: 'list_models', arguments: { secret: 'x' } } }

    assert.deepEqual(loggedCall(message), { rpcMethod: 'tools/call', tool: 'list_models' })
    assert.deepEqual(loggedCall(LIST), { rpcMethod: 'tools/list' })
    assert.deepEqual([loggedCall([]), loggedCall(null)], [undefined, undefined])
  })

  it('must contain a single message, so that the rate limit counts each one', async () => {
    const { status, body } = await post(
      {},
      Array.from({ length: 20 }, (_, id) => ({ ...LIST, id })),
    )

    assert.equal(status, 422)
    assert.match(body.error.message, /must be a single message/)
  })

  for (const [accepted, form] of [
    ['text/event-stream', 'text/event-stream'],
    ['application/json', 'application/json'],
    ['application/json; q=0.5, text/plain', 'application/json'],
    ['*/*', undefined],
    [undefined, undefined],
  ] as const) {
    it(`are answered for a client that accepts ${accepted ?? 'anything (no Accept header)'}`, async () => {
      const call = { ...LIST, method: 'tools/call', params: { name: 'list_endpoints', arguments: {} } }
      for (const body of [LIST, call]) {
        const response = await fetch(`${api.baseUrl}/mcp/`, {
          method: 'POST',
          headers: {
            authorization: `Bearer ${key}`,
            'content-type': 'application/json',
            ...(accepted && { accept: accepted }),
          },
          body: JSON.stringify(body),
        })

        const type = response.headers.get('content-type')
        const text = await response.text()
        assert.equal(response.status, 200, text)
        if (form) assert.ok(type?.startsWith(form), type ?? 'none')
        const json = type?.startsWith('text/event-stream') ? /^data: ?(.+)$/m.exec(text)?.[1] : text
        assert.ok(JSON.parse(json ?? '').result, text)
      }
    })
  }

  it('get 406 from a client that accepts neither format', async () => {
    assert.equal((await post({ accept: 'text/html' })).status, 406)
  })

  it('may have null for absent arguments, parameters and optional fields of arguments', async () => {
    const called = async (params: object) => {
      const { status, body, text } = await post({}, { ...LIST, method: 'tools/call', params })
      assert.equal(status, 200)
      return body?.result ?? JSON.parse(/^data: ?(.+)$/m.exec(text)?.[1] ?? '{}').result
    }
    const listed = await called({ name: 'list_endpoints', arguments: { limit: null, search: null } })
    const bare = await called({ name: 'list_endpoints', arguments: null })
    const needed = await called({ name: 'get_endpoint', arguments: { endpoint_id: null } })

    assert.deepEqual([listed.isError ?? false, bare.isError ?? false], [false, false])
    assert.equal(needed.isError, true)
    assert.match(needed.content[0].text, /endpoint_id: .*(?:text|must)/)
    const { status } = await post({}, { ...LIST, params: null })
    assert.equal(status, 200)
  })

  it('report only one validation error for a large call, however many it has', async () => {
    await using mcp = await connectMcp(api, key)
    const unknown = Object.fromEntries(Array.from({ length: 1_900 }, (_, i) => [`member_${i}`, i]))

    const { isError, text } = await mcp.call('list_endpoints', unknown)

    assert.equal(isError, true)
    assert.ok(text.length < 500, text)
  })

  it('start no new work while the kill switch is active, and return an error to the agent', async () => {
    const killSwitch = (path: string) =>
      api.call('POST', `/api/v1/admin/killswitch/${path}`, { headers: { 'x-api-key': OPERATIONS_KEY } })
    await using mcp = await connectMcp(api, key)
    await killSwitch('activate?reason=test')

    const run = await mcp.call('create_training_run', {
      job_name: 'x',
      model_config_id: 'tabular-regression',
      dataset_id: newId(),
    })
    const merge = await mcp.call('training.merge', { name: 'x' })
    const list = await mcp.call('list_datasets')
    await killSwitch('deactivate')

    for (const { isError, text } of [run, merge]) {
      assert.equal(isError, true)
      assert.match(text, /^New work is stopped by an operator\. Try again in 30 s\.$/)
    }
    assert.equal(list.isError, false)
  })

  it("count toward their account's rate limit", async () => {
    await using limited = await startApi({
      database: api.database,
      env: { HEARTH_RATE_LIMIT: '1', HEARTH_RATE_BURST: '2' },
    })

    const statuses: number[] = []
    for (let i = 0; i < 4; i++) {
      const { status } = await limited.call('POST', '/mcp', { key, body: LIST, headers: { accept } })
      statuses.push(status)
    }

    assert.ok(statuses.includes(429), statuses.join())
  })
})
