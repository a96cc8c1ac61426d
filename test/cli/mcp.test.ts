import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import type { EndpointRow } from '../../db/tables/models.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { BARE_ENV } from '../support/compile-cache.ts'
import { REVISIONS, type Revision } from '../support/servers/clients/mcp-client.ts'
import { InferenceApi } from '../support/servers/inference-api.ts'
import { addModel, until } from '../support/servers/nodes/node.ts'

const run = promisify(execFile)

describe('hearth mcp', () => {
  let on: InferenceApi
  let folder: ReturnType<typeof temporaryFolder>
  let warm: EndpointRow
  before(async () => {
    folder = temporaryFolder()
    on = await InferenceApi.start()
    warm = await on.endpointOver(await on.loadedModel(), { name: 'sales.churn' })
  })
  after(async () => {
    folder?.[Symbol.dispose]()
    await on?.[Symbol.asyncDispose]()
  })

  const env = (more: Record<string, string> = {}): Record<string, string> => ({
    ...BARE_ENV,
    HEARTH_DATA_DIR: folder.path,
    HEARTH_BASE_URL: on.api.baseUrl,
    HEARTH_API_KEY: on.caller.key,
    ...more,
  })

  /** Connects a client that starts the bridge, as desktop clients do. */
  async function connect(revision: Revision, more?: Record<string, string>, args: string[] = []) {
    const mode = revision === '2025-11-25' ? 'legacy' : { pin: revision }
    const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } })
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: ['cli/hearth.ts', 'mcp', ...args],
      env: env(more),
      stderr: 'ignore',
    })
    await client.connect(transport)
    return { client, [Symbol.asyncDispose]: () => client.close() }
  }

  for (const revision of REVISIONS) {
    it(`bridges a desktop client that speaks ${revision} to the platform, with progress and safe tool names`, async () => {
      await using mcp = await connect(revision)
      const cold = await on.endpointOver(await addModel(on.api, { name: 'cold' }))
      const progressMessages: string[] = []

      const { tools } = await mcp.client.listTools()
      const prediction = await mcp.client.callTool({ name: 'sales_churn', arguments: { instances: [4] } })
      const waited = await mcp.client.callTool(
        { name: 'run_inference', arguments: { endpoint_id: cold.id, input: { instances: [1] } } },
        {
          onprogress: ({ message = '' }) => {
            progressMessages.push(message)
            void on.api.database.db
              .updateTable('task')
              .set({
                status: 'succeeded',
                result: Buffer.from('{"predictions":[]}'),
                completed_at: new Date(),
              })
              .where('endpoint_id', '=', cold.id)
              .execute()
          },
        },
      )

      assert.ok(tools.every(({ name }) => /^[A-Za-z0-9_-]{1,64}$/.test(name)))
      assert.deepEqual((prediction.structuredContent as { predictions: unknown }).predictions, [4])
      assert.equal(progressMessages[0], 'queued')
      assert.equal((waited.structuredContent as { status: string }).status, 'succeeded')
      await assert.rejects(mcp.client.callTool({ name: 'make_coffee' }), /Unknown tool/)
    }).timeout(120_000)
  }

  it('cancels a call when the client cancels it', async () => {
    const cold = await on.endpointOver(await addModel(on.api, { name: 'cold' }))
    await using mcp = await connect('2025-11-25')
    const leave = new AbortController()
    const call = { name: 'run_inference', arguments: { endpoint_id: cold.id, input: { instances: [1] } } }
    const pendingCall = mcp.client.callTool(call, { signal: leave.signal })
    pendingCall.catch(() => {})
    const { db } = on.api.database
    const row = () => db.selectFrom('task').selectAll().where('endpoint_id', '=', cold.id).executeTakeFirst()
    await until(async () => (await row()) !== undefined)

    leave.abort()

    await assert.rejects(pendingCall)
    await until(async () => (await row())?.status === 'failed')
  }).timeout(120_000)

  it('returns an error to the client for a wrong key or URL, and prints nothing else', async () => {
    await assert.rejects(connect('2025-11-25', { HEARTH_API_KEY: 'hk_wrong' }), /API key is not valid/)
    await assert.rejects(connect('2025-11-25', { HEARTH_BASE_URL: 'http://127.0.0.1:1' }), /Cannot reach/)
    const { code, stdout, stderr } = await run(process.execPath, ['cli/hearth.ts', 'mcp'], {
      env: env({ HEARTH_API_KEY: '' }),
    }).then(
      () => assert.fail('the bridge served requests without a key'),
      (err: { code: number; stdout: string; stderr: string }) => err,
    )
    assert.deepEqual([code, stdout], [2, ''])
    assert.match(stderr, /requires an API key/)
  })

  it('finds the local platform and its key', async () => {
    const ready = { base_url: on.api.baseUrl, api_key: on.caller.key, operations_key: 'x', account_id: 'y' }
    await writeFile(join(folder.path, 'ready.json'), JSON.stringify(ready))
    await using mcp = await connect('2025-11-25', { HEARTH_BASE_URL: '', HEARTH_API_KEY: '' }, [
      '--names',
      'slugs',
    ])

    const { tools } = await mcp.client.listTools()

    assert.ok(tools.some(({ name }) => name === warm.name))
  })

  it('prints the configuration for each client', async () => {
    const print = async (...args: string[]) =>
      (await run(process.execPath, ['cli/hearth.ts', 'mcp', 'config', ...args], { env: env() })).stdout

    const all = await print()

    for (const name of ['Claude Desktop', 'Claude Code', 'Codex', 'VS Code', 'Cursor']) {
      assert.match(all, new RegExp(`^# ${name}: `, 'm'))
    }
    const { mcpServers } = JSON.parse(await print('--client', 'claude-desktop'))
    assert.equal(mcpServers.hearth.env.HEARTH_API_KEY, on.caller.key)
    const { servers } = JSON.parse(await print('--client', 'vscode'))
    assert.equal(servers.hearth.url, `${on.api.baseUrl}/mcp?names=safe`)
    const made = new Client({ name: 'test', version: '1.0.0' })
    const { command, args, env: variables } = mcpServers.hearth
    await made.connect(
      new StdioClientTransport({ command, args, env: { ...env(), ...variables }, stderr: 'ignore' }),
    )
    assert.ok((await made.listTools()).tools.length > 15)
    await made.close()
  }).timeout(120_000)
})
