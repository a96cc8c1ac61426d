import assert from 'node:assert/strict'
import { findTool } from '../../../api/manifest/tools-of.ts'
import * as usageRepository from '../../../db/repositories/platform/usage.ts'
import { until } from '../../support/assertions/until.ts'
import { buildEndpoint, buildVersion } from '../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'

const EXAMPLE = { name: 'second', description: '', input: { x: 1 }, output: { y: 1 } }

describe("the stability and latency class of an endpoint's tool", () => {
  let api: TestApi
  let accountId: string
  before(async () => {
    api = await startApi()
    ;({ accountId } = await api.account())
  })
  after(() => api[Symbol.asyncDispose]())

  const build = async (days: number) => {
    const version = await buildVersion(api.database.db, accountId, { lifecycle_status: 'ready' })
    return buildEndpoint(api.database.db, accountId, {
      version_id: version.id,
      created_at: new Date(Date.now() - days * 86_400_000),
      examples: JSON.stringify([EXAMPLE]),
    })
  }
  const used = async (endpointId: string, counts: { succeeded?: number; failed?: number; ms?: number }) => {
    const { succeeded = 0, failed = 0, ms = 10 } = counts
    const row = {
      account_id: accountId,
      endpoint_id: endpointId,
      enqueued: succeeded + failed,
      succeeded,
      failed,
    }
    await api.database.db
      .insertInto('usage_delta')
      .values({ ...row, inference_ms: succeeded * ms })
      .execute()
    // Two concurrent folds count everything once.
    await Promise.all([
      usageRepository.foldUsage(api.database.db),
      usageRepository.foldUsage(api.database.db),
    ])
  }
  const latencyOf = async (slug: string) => {
    const found = await tool(slug)
    return found && (await api.services.tools.texts.manifest(found)).latencyClass
  }
  const tool = (slug: string) => findTool(api.services, { accountId }, slug)

  it('change with usage, and gateways see each step', async () => {
    const { id, name } = await build(30)
    assert.equal((await tool(name))?.stability, 'experimental')
    assert.equal(await latencyOf(name), 'fast')

    await used(id, { succeeded: 10 })
    await until(async () => (await tool(name))?.stability === 'beta')
    assert.equal(await latencyOf(name), 'instant')
    await used(id, { succeeded: 200, ms: 5_000 })
    await until(async () => (await tool(name))?.stability === 'stable')
    assert.equal(await latencyOf(name), 'slow')
    await used(id, { failed: 100 })
    await until(async () => (await tool(name))?.stability === 'experimental')
    assert.equal((await tool(name))?.version, '1.0.3')
  })

  it('reach `stable` with age even without further usage', async () => {
    const { id, name } = await build(6)
    await used(id, { succeeded: 100 })
    await until(async () => (await tool(name))?.stability === 'beta')

    await usageRepository.foldUsage(api.database.db, new Date(Date.now() + 2 * 86_400_000))

    await until(async () => (await tool(name))?.stability === 'stable')
  })

  it("leave gateways' caches untouched while no level changes", async () => {
    const { id, name } = await build(0)
    await used(id, { succeeded: 20 })
    await until(async () => (await tool(name))?.stability === 'beta')
    const versionOf = async () =>
      (
        await api.database.db
          .selectFrom('cache_version')
          .select('version')
          .where('name', '=', 'endpoint')
          .executeTakeFirst()
      )?.version
    const before = await versionOf()

    await used(id, { succeeded: 20, failed: 1 })

    assert.equal(await versionOf(), before)
  })
})
