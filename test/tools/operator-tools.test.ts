import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { until } from '../support/assertions/until.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'
import { OPERATIONS_KEY } from '../support/servers/api.ts'
import { nodeImage, requireEngine } from '../support/servers/nodes/container-engine.ts'
import { scriptTool } from '../support/servers/nodes/tools.ts'
import { startToolWorld, type ToolWorld } from '../support/servers/worlds/tool-world.ts'

const CLI = fileURLToPath(new URL('../../cli/hearth.ts', import.meta.url))
const ANY_IMAGE = `sha256:${'0'.repeat(64)}`

describe('operator tools', function () {
  this.timeout(60_000)
  let world: ToolWorld
  before(async () => {
    world = await startToolWorld()
  })
  after(() => world?.[Symbol.asyncDispose]())

  const admin = (method: string, path: string, body?: object) =>
    world.api.call(method, `/api/v1/admin${path}`, { key: OPERATIONS_KEY, ...(body && { body }) })
  const tool = (change: object = {}) => ({
    ...scriptTool('shout', ':').tool,
    image: ANY_IMAGE,
    ...change,
  })

  it('are rejected with the name of the wrong field', async () => {
    const cases: [object, RegExp][] = [
      [{ image: undefined }, /image/],
      [{ image: 'busybox:latest' }, /image/],
      [{ slug: 'list_models' }, /slug.*every MCP server/],
      [{ slug: 'Not A Slug' }, /slug/],
      [{ input_schema: { type: 'nonsense' } }, /input_schema/],
      [{ texts: { code: 'main.sh' } }, /lacks code/],
      [
        {
          examples: [{ name: 'x', description: '', input: {}, output: {} }],
          output_schema: { required: ['a'] },
        },
        /examples/,
      ],
      [{ limits: { time_s: 1 } }, /memory_mb/],
      [{ network: 'bridge' }, /network/],
      [{ privileged: true }, /privileged/],
    ]
    for (const [change, expected] of cases) {
      const { status, text } = await admin('POST', '/tools', tool(change))
      assert.equal(status, 422, text)
      assert.match(text, expected)
    }
  })

  it('cannot use the name of an endpoint', async () => {
    const { accountId } = world
    const { buildEndpoint } = await import('../support/builders/build-endpoint.ts')
    await buildEndpoint(world.api.database.db, accountId, { name: 'mine' })

    assert.equal((await admin('POST', '/tools', tool({ slug: 'mine' }))).status, 409)
  })

  it('are added, replaced, removed and added again', async () => {
    const added = await admin('POST', '/tools', tool())
    assert.equal(added.status, 201, added.text)
    const again = await admin('POST', '/tools', tool({ description: 'Shouts louder.' }))
    assert.equal(again.body.endpoint_id, added.body.endpoint_id)
    const path = '/api/builder/v1/endpoints/shout'
    const { key } = world
    assert.equal((await world.api.call('GET', path, { key })).body.description, 'Shouts louder.')

    assert.equal((await admin('DELETE', '/tools/shout')).status, 204)
    assert.equal((await admin('DELETE', '/tools/shout')).status, 404)
    await until(async () => (await world.call('shout', {})).status === 404)
    assert.equal((await admin('POST', '/tools', tool())).status, 201)
    await until(async () => (await world.call('shout', {})).status === 503)
  })

  it('from the catalog stay removed after a restart', async () => {
    const { registerTools } = await import('../../api/tools/register.ts')
    assert.equal((await admin('DELETE', '/tools/fetch_page')).status, 204)
    await registerTools(world.api.services)

    const { body } = await admin('GET', '/tools')
    const slugs = body.tools.map((one: { slug: string }) => one.slug)
    assert.ok(slugs.includes('calculator'))
    assert.ok(!slugs.includes('fetch_page'))
  })

  it('cannot be kept warm', async () => {
    const { body } = await admin('GET', '/tools')
    const { status } = await admin('PUT', `/endpoints/${body.tools[0].endpoint_id}/min-warm`, { min_warm: 1 })
    assert.equal(status, 422)
  })

  it('run in a container from their image when added with the CLI', async function () {
    this.timeout(180_000)
    await using engine = await requireEngine(this, { withImage: false })
    const image = await nodeImage(engine)
    await using node = await world.toolNode({ containerSocket: engine.socketPath })
    using folder = temporaryFolder()
    const at = join(folder.path, 'loud')
    mkdirSync(at)
    const script = `const { text } = JSON.parse(require('fs').readFileSync('/hearth/input/input.json'))
      console.log(JSON.stringify({ text: text.toUpperCase() }))`
    const description = tool({
      slug: 'loud',
      image: image.startsWith('sha256:') ? image : `sha256:${image}`,
      command: ['/bin/node', '-e', script],
      output: 'json',
      limits: { ...tool().limits, memory_mb: 256 },
      input_schema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
      output_schema: { type: 'object', properties: { text: { type: 'string' } } },
      examples: [{ name: 'a', description: '', input: { text: 'a' }, output: { text: 'A' } }],
    })
    writeFileSync(join(at, 'tool.json'), JSON.stringify(description))
    const hearth = (...args: string[]) =>
      promisify(execFile)(process.execPath, [
        CLI,
        '--base-url',
        world.api.baseUrl,
        '--operations-key',
        OPERATIONS_KEY,
        ...args,
      ])
    assert.match((await hearth('tools', 'add', at)).stdout, /^loud is available as endpoint/)
    assert.match((await hearth('tools', 'list')).stdout, /loud +operator +none +sha256:/)

    await until(() => node.parts.tools.has('tool:loud'), 30_000)
    await until(() => world.api.services.links.placement.count('tool:loud').warm > 0)
    const { body } = await world.call('loud', { text: 'hello' })
    assert.deepEqual(body.result, { text: 'HELLO' }, body.message)
    const builtIn = await world.call('calculator', { expression: '2 * 21' })
    assert.equal(builtIn.body.result.text, '42', builtIn.body.message)
    await hearth('tools', 'remove', 'loud')
    await until(async () => (await world.call('loud', { text: 'x' })).status === 404)
  })
})
