import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { ToolTexts } from '../../../api/manifest/tool-texts.ts'
import { textOf, Tool } from '../../../api/manifest/tool.ts'
import * as endpointChangeRepository from '../../../db/repositories/endpoints/changes.ts'
import type { Manifest, ToolManifest } from '../../../schemas/tool.ts'
import { until } from '../../support/assertions/until.ts'
import { buildEndpoint } from '../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { connectMcp } from '../../support/servers/clients/mcp-client.ts'

const PATH = '/api/builder/v1/mcp/manifest'
const MB = 1024 * 1024
const ENDPOINTS = 60

const schemaOf = (words: string) =>
  JSON.stringify({ type: 'object', properties: { x: { description: words } } })
const wordsIn = (schema: unknown) =>
  (schema as { properties: { x: { description: string } } }).properties.x.description

describe('tools with schemas of a megabyte', () => {
  let api: TestApi
  let mine: { accountId: string; key: string }
  const words = new Map<string, string>()
  before(async () => {
    api = await startApi()
    mine = await api.account()
    for (let n = 0; n < ENDPOINTS; n++) {
      const text = randomBytes(350_000).toString('hex')
      const input_schema = schemaOf(text)
      const { name } = await buildEndpoint(api.database.db, mine.accountId, {
        name: `big-${n}`,
        input_schema,
      })
      words.set(name, text)
    }
  })
  after(() => api[Symbol.asyncDispose]())

  it('are not held in memory, and are complete in every response', async () => {
    const { texts } = api.services.tools
    const { status, body, headers } = await api.call<Manifest>('GET', PATH, { key: mine.key })

    assert.equal(status, 200)
    const shown = new Map(body.tools.map(({ name, inputSchema }) => [name, inputSchema]))
    for (const [name, text] of words) assert.equal(wordsIn(shown.get(name)), text)
    assert.ok(texts.heldBytes < MB, `${texts.heldBytes} bytes`)
    const etag = String(headers['etag'])
    const again = await api.call('GET', PATH, { key: mine.key, headers: { 'if-none-match': etag } })
    assert.equal(again.status, 304)
    const one = await api.call<ToolManifest>('GET', `${PATH}/big-7`, { key: mine.key })
    assert.equal(wordsIn(one.body.inputSchema), words.get('big-7'))
  }).timeout(60_000)

  it('are listed to agents page by page', async () => {
    await using mcp = await connectMcp(api, mine.key)

    const { tools } = await mcp.client.listTools()

    const shown = new Map(tools.map(({ name, inputSchema }) => [name, inputSchema]))
    for (const [name, text] of words) assert.equal(wordsIn(shown.get(name)), text)
    assert.ok(api.services.tools.texts.heldBytes < MB)
  }).timeout(60_000)

  it('are up to date after a change', async () => {
    const { db } = api.database
    const input_schema = schemaOf('short now')
    await db.transaction().execute(async (trx) => {
      const { id } = await trx
        .updateTable('endpoint')
        .set({ input_schema })
        .where('name', '=', 'big-3')
        .returning('id')
        .executeTakeFirstOrThrow()
      await endpointChangeRepository.noteEndpointChange(trx, [id])
    })

    await until(async () => {
      const { body } = await api.call<ToolManifest>('GET', `${PATH}/big-3`, { key: mine.key })
      return body.inputSchema !== undefined && wordsIn(body.inputSchema) === 'short now'
    })
  })
})

describe('tool texts', () => {
  const manifest = (name: string, description = '') =>
    ({ name, version: '1.0.0', kind: 'model', stability: 'beta', description }) as ToolManifest
  const made = (name: string, description?: string) => {
    const text = textOf(manifest(name, description))
    return { text, tool: new Tool(manifest(name, description), { endpointId: name, side: 'own' }, text) }
  }
  const collect = async (texts: ToolTexts, tools: Tool[]) =>
    (await Array.fromAsync(texts.of(tools))).map((text) => (JSON.parse(String(text)) as ToolManifest).name)

  it('are cached up to a limit, and read in small batches beyond it', async () => {
    const all = Array.from({ length: 400 }, (_, n) =>
      made(`tool-${n}`, `${n}`.repeat(100_000).slice(0, 200_000)),
    )
    const stored = new Map(all.map(({ tool, text }) => [tool, text]))
    const reads: number[] = []
    const texts = new ToolTexts(async (tools) => {
      reads.push(tools.reduce((sum, { bytes }) => sum + bytes, 0))
      return new Map(tools.map((tool) => [tool, stored.get(tool) ?? Buffer.alloc(0)]))
    })
    for (const { tool, text } of all) texts.hold(tool, text)

    const tools = all.map(({ tool }) => tool)
    assert.deepEqual(
      await collect(texts, tools),
      tools.map(({ slug }) => slug),
    )
    assert.ok(texts.heldBytes <= 64 * MB)
    assert.ok(reads.length > 10 && Math.max(...reads) <= 2 * MB, reads.join())
    const last = tools.slice(-100)
    reads.length = 0
    await collect(texts, last)
    assert.deepEqual(reads, [])
  })

  it('are refused for a tool that has changed since it was listed', async () => {
    const { tool } = made('gone')
    const texts = new ToolTexts(async () => new Map())

    await assert.rejects(
      collect(texts, [tool]),
      /the tool gone has changed since it was listed; list the tools again/,
    )
  })
})
