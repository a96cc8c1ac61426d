import assert from 'node:assert/strict'
import { mergeTools } from '../../../api/manifest/tool-list.ts'
import { ToolSet } from '../../../api/manifest/tool-set.ts'
import { Tool } from '../../../api/manifest/tool.ts'
import * as endpointChangeRepository from '../../../db/repositories/endpoints/changes.ts'
import * as endpointRepository from '../../../db/repositories/endpoints/endpoints.ts'
import * as configLifecycleRepository from '../../../db/repositories/models/config-lifecycle.ts'
import type { ToolManifest } from '../../../schemas/tool.ts'
import { until } from '../../support/assertions/until.ts'
import { buildEndpoint } from '../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { startDatabase, type TestDatabase } from '../../support/servers/database.ts'

const pick = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)] as T

describe("a gateway's in-memory tools", () => {
  let database: TestDatabase
  before(async () => {
    database = await startDatabase()
  })
  after(() => database[Symbol.asyncDispose]())

  /** Makes one random change to an endpoint, as a request would. */
  async function change(accountIds: readonly string[], ids: string[]): Promise<void> {
    const { db } = database
    const kind = Math.random()
    if (ids.length < 10 || kind < 0.15) {
      const endpoint = await buildEndpoint(db, pick(accountIds))
      await db.transaction().execute((trx) => endpointChangeRepository.noteEndpointChange(trx, [endpoint.id]))
      ids.push(endpoint.id)
      return
    }
    if (kind < 0.2) {
      const [account_id, lifecycle_status] = [pick(accountIds), pick(['disabled', 'ready'] as const)]
      const row = {
        account_id,
        model_config_id: 'tabular-regression',
        lifecycle_status,
        reason: null,
        updated_at: new Date(),
      }
      await db.transaction().execute((trx) => configLifecycleRepository.saveConfigLifecycle(trx, row))
      return
    }
    const changed = pick([
      { description: String(kind) },
      { status: 'paused' },
      { status: 'active' },
      { visibility: 'public', review_status: 'approved' },
      { visibility: 'account', review_status: 'active' },
      { deleted_at: new Date() },
      { deleted_at: null },
      { input_schema: JSON.stringify({ type: 'object', properties: { [`p${Math.floor(kind * 10)}`]: {} } }) },
    ] as const)
    await db
      .transaction()
      .execute((trx) => endpointRepository.updateEndpoint(trx, pick(ids), changed, new Date()))
  }

  it('equal those of a freshly started gateway after any changes, even during their first read', async () => {
    await using first = await startApi({ database })
    await using second = await startApi({ database })
    const accountIds: string[] = []
    for (let n = 0; n < 3; n++) accountIds.push((await first.account()).accountId)
    const tagsOf = ({ services }: TestApi) =>
      Promise.all(accountIds.map(async (id) => (await services.tools.list(id, [])).etag))
    const ids: string[] = []

    for (let round = 0; round < 3; round++) {
      await Promise.all(
        Array.from({ length: 4 }, async () => {
          for (let n = 0; n < 40; n++) {
            await change(accountIds, ids)
            await Promise.all([tagsOf(first), n % 3 === 0 && tagsOf(second)])
          }
        }),
      )
      await using fresh = await startApi({ database })
      const expected = await tagsOf(fresh)
      for (const gateway of [first, second]) {
        await until(async () => String(await tagsOf(gateway)) === String(expected), 10_000)
      }
    }
  })

  it('are refused rather than served stale while the database is unreachable', async () => {
    await using gateway = await startApi()
    const { key } = await gateway.account()
    const path = '/api/builder/v1/mcp/manifest'
    assert.equal((await gateway.call('GET', path, { key })).status, 200)

    await gateway.services.db.destroy()

    await until(async () => (await gateway.call('GET', path, { key })).status !== 200)
  })
})

describe('a tool set', () => {
  const tool = (slug: string, displayName = slug) =>
    new Tool(
      { name: slug, displayName, version: '1.0.0', kind: 'model', stability: 'beta' } as ToolManifest,
      { endpointId: slug, side: 'own' },
    )

  it('stays sorted, and is the same whatever the order of insertion', () => {
    const slugs = Array.from({ length: 200 }, (_, n) => `tool-${(n * 7919) % 1000}`)
    const made = new ToolSet([])
    for (const slug of slugs) made.put(slug, tool(slug, 'first'))
    for (const slug of slugs) assert.equal(made.put(slug, tool(slug, 'first')), false)
    for (const slug of slugs.slice(0, 50)) assert.ok(made.put(slug, undefined))
    for (const slug of slugs.slice(50, 100)) assert.ok(made.put(slug, tool(slug, 'second')))

    const remaining = slugs.slice(50).map((slug, n) => tool(slug, n < 50 ? 'second' : 'first'))
    const read = new ToolSet(remaining)
    assert.deepEqual(
      made.tools.map(({ slug }) => slug),
      slugs.slice(50).toSorted(),
    )
    const parts = {
      operations: [tool('tool-1000'), tool('training.merge')],
      publics: new ToolSet([tool('a'), tool('tool-7')]),
    }
    const [one, other] = [mergeTools({ ...parts, own: made }, []), mergeTools({ ...parts, own: read }, [])]
    assert.equal(one.etag, other.etag)
    for (const { slug } of one.tools) assert.equal(one.find(slug)?.slug, slug)
    assert.equal(one.find('tool-none'), undefined)
    assert.deepEqual(
      one.tools.map(({ slug }) => slug),
      one.tools.map(({ slug }) => slug).toSorted(),
    )
    assert.notEqual(one.etag, mergeTools({ ...parts, own: new ToolSet([]) }, []).etag)
  })
})
