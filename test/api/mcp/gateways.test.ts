import assert from 'node:assert/strict'
import { buildEndpoint } from '../../support/builders/build-endpoint.ts'
import { type AnyBody, startApi, type TestApi } from '../../support/servers/api.ts'
import { connectMcp } from '../../support/servers/clients/mcp-client.ts'
import { startDatabase, type TestDatabase } from '../../support/servers/database.ts'
import { until } from '../../support/servers/nodes/node.ts'

describe('clients that listen on one of several gateways', () => {
  let database: TestDatabase
  before(async () => {
    database = await startDatabase()
  })
  after(() => database[Symbol.asyncDispose]())

  async function listen(api: TestApi, key: string) {
    let changes = 0
    const onChanged = () => void (changes += 1)
    const mcp = await connectMcp(api, key, {
      revision: '2026-07-28',
      listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged } },
    })
    await mcp.client.listen({ toolsListChanged: true })
    return { mcp, changes: () => changes }
  }

  it('are notified of changes made on another gateway, once those are visible', async () => {
    await using here = await startApi({ database })
    await using elsewhere = await startApi({ database })
    const { key, accountId } = await here.account()
    const { id, name } = await buildEndpoint(database.db, accountId)
    const mine = await listen(here, key)
    const stranger = await listen(here, (await here.account()).key)
    await using _mine = mine.mcp
    await using _stranger = stranger.mcp
    const before = { mine: mine.changes(), stranger: stranger.changes() }

    const change: AnyBody = { key, body: { description: 'Counts to ten.' } }
    const { status } = await elsewhere.call('PATCH', `/api/builder/v1/endpoints/${id}`, change)

    assert.equal(status, 200)
    await until(() => mine.changes() > before.mine)
    const { tools } = await mine.mcp.client.listTools()
    assert.equal(tools.find((tool) => tool.name === name)?.description, 'Counts to ten.')
    assert.equal(stranger.changes(), before.stranger)
  })

  it('are disconnected promptly when their gateway stops', async () => {
    const api = await startApi({ database })
    const { mcp } = await listen(api, (await api.account()).key)
    const began = performance.now()

    await api[Symbol.asyncDispose]()

    const ms = performance.now() - began
    assert.ok(ms < 2_500, `${ms} ms`)
    await mcp[Symbol.asyncDispose]()
  })
})
