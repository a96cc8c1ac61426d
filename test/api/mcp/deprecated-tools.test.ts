import assert from 'node:assert/strict'
import type { ToolManifest } from '../../../schemas/tool.ts'
import { buildRun, buildVersion } from '../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { connectMcp, type McpClient } from '../../support/servers/clients/mcp-client.ts'
import { until } from '../../support/servers/nodes/node.ts'

const ENDPOINTS = '/api/builder/v1/endpoints'

describe('deprecated endpoints as MCP tools', () => {
  let api: TestApi
  let accountId: string
  let key: string
  let mcp: McpClient
  before(async () => {
    api = await startApi()
    ;({ accountId, key } = await api.account())
    mcp = await connectMcp(api, key)
  })
  after(async () => {
    await mcp?.[Symbol.asyncDispose]()
    await api?.[Symbol.asyncDispose]()
  })

  const run = async (job_name: string) => {
    const { id } = await buildRun(api.database.db, accountId, { job_name })
    await buildVersion(api.database.db, accountId, { job_id: id })
    return id
  }
  const register = (run_id: string) => mcp.call('register_for_inference', { run_id, description: 'Counts.' })
  const deprecate = async (name: string, replaced_by?: string) => {
    const body = { status: 'deprecated', ...(replaced_by && { replaced_by }) }
    const { status } = await api.call('PATCH', `${ENDPOINTS}/${name}`, { key, body })
    assert.equal(status, 200)
  }
  const descriptionOf = async (name: string) =>
    (await mcp.client.listTools()).tools.find((tool) => tool.name === name)?.description

  it('start their description with the deprecation and its replacement; the manifest has both as separate fields', async () => {
    await register(await run('old-one'))
    await register(await run('new-one'))
    await until(async () => (await descriptionOf('old-one')) === 'Counts.')

    await deprecate('old-one')
    await until(
      async () => (await descriptionOf('old-one')) === 'Deprecated: it may be removed soon. Counts.',
    )
    await deprecate('old-one', 'new-one')
    await until(async () => (await descriptionOf('old-one')) === 'Deprecated: use new-one instead. Counts.')

    const { body } = await api.call<ToolManifest>('GET', '/api/builder/v1/mcp/manifest/old-one', { key })
    assert.equal(body.description, 'Counts.')
    assert.equal(body.deprecation?.replacedBy, 'new-one')
    assert.equal(await descriptionOf('new-one'), 'Counts.')
  })

  it('are never returned for a registration without a name', async () => {
    const id = await run('churn')
    const first = await register(id)
    assert.equal((await register(id)).body.endpoint_id, first.body.endpoint_id)
    await deprecate('churn')

    const second = await register(id)

    assert.deepEqual([first.body.name, second.body.name], ['churn', `churn-${id.slice(-8)}`])
    assert.equal((await register(id)).body.endpoint_id, second.body.endpoint_id)
    await deprecate(second.body.name)
    const third = await register(id)
    assert.equal(third.isError, true)
    assert.match(third.text, /^The names churn and churn-\w{8}, .* are not available; choose a name\.$/)
  })
})
