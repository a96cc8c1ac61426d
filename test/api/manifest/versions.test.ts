import assert from 'node:assert/strict'
import { findTool } from '../../../api/manifest/tools-of.ts'
import * as endpointChangeRepository from '../../../db/repositories/endpoints/changes.ts'
import * as endpointRepository from '../../../db/repositories/endpoints/endpoints.ts'
import type { EndpointChange } from '../../../db/repositories/endpoints/endpoints.ts'
import { until } from '../../support/assertions/until.ts'
import { buildEndpoint } from '../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'
import { startDatabase, type TestDatabase } from '../../support/servers/database.ts'

const schema = (...names: string[]) =>
  JSON.stringify({
    type: 'object',
    properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])),
  })

describe('a manifest version (2.10, 9.3)', () => {
  let database: TestDatabase
  const gateways: TestApi[] = []
  let accountId: string
  before(async () => {
    database = await startDatabase()
    for (let n = 0; n < 3; n++) gateways.push(await startApi({ database }))
    ;({ accountId } = await gateways[0]!.account())
  })
  after(async () => {
    for (const gateway of gateways) await gateway[Symbol.asyncDispose]()
    await database[Symbol.asyncDispose]()
  })

  const change = (id: string, changed: EndpointChange) =>
    database.db
      .transaction()
      .execute((trx) => endpointRepository.updateEndpoint(trx, id, changed, new Date()))
  const versionAt = async ({ services }: TestApi, slug: string) =>
    (await findTool(services, { accountId }, slug))?.version
  const stored = async (endpointId: string) =>
    (
      await database.db
        .selectFrom('tool_version')
        .select('version')
        .where('endpoint_id', '=', endpointId)
        .executeTakeFirst()
    )?.version
  const build = async () => {
    const endpoint = await buildEndpoint(database.db, accountId, {
      input_schema: schema('a'),
      output_schema: schema('x'),
    })
    await database.db
      .transaction()
      .execute((trx) => endpointChangeRepository.noteEndpointChange(trx, [endpoint.id]))
    await seenByAll(endpoint.name, '1.0.0')
    return endpoint
  }
  const seenByAll = (slug: string, version: string) =>
    until(async () =>
      (await Promise.all(gateways.map((gateway) => versionAt(gateway, slug)))).every(
        (one) => one === version,
      ),
    )

  it('increases by the weight of each change, once for all gateways', async () => {
    const { id, name } = await build()
    const steps: [EndpointChange, string][] = [
      [{ description: 'words' }, '1.0.1'],
      [{ tags: ['a'] }, '1.0.2'],
      [{ price_micro: 5_000_000 }, '1.0.3'],
      [{ input_schema: schema('a', 'b') }, '1.1.0'],
      [{ output_schema: schema('x', 'y') }, '1.2.0'],
      [{ input_schema: schema('b') }, '2.0.0'],
      [{ output_schema: schema('y') }, '3.0.0'],
      [{ status: 'deprecated' }, '3.0.1'],
    ]
    for (const [changed, version] of steps) {
      await change(id, changed)
      await seenByAll(name, version)
      assert.equal(await stored(id), version)
    }
  })

  it('reflects the final state after concurrent changes', async () => {
    const { id, name } = await build()

    await Promise.all(Array.from({ length: 20 }, (_, n) => change(id, { description: `words ${n}` })))
    await change(id, { input_schema: schema() })
    await until(async () => {
      const manifests = await Promise.all(
        gateways.map(async ({ services }) => {
          const tool = await findTool(services, { accountId }, name)
          return tool && services.tools.texts.manifest(tool)
        }),
      )
      return manifests.every(
        (manifest) => Object.keys(manifest?.inputSchema['properties'] ?? { a: 1 }).length === 0,
      )
    })

    const seen = new Set(await Promise.all(gateways.map((gateway) => versionAt(gateway, name))))
    assert.equal(seen.size, 1)
    assert.match(String([...seen][0]), /^2\.0\.0$/)
  })

  it('survives a restart, and increases for changes made while no gateway ran', async () => {
    const { id, name } = await build()
    await change(id, { input_schema: schema('a', 'b') })
    await seenByAll(name, '1.1.0')

    await using restarted = await startApi({ database })
    assert.equal(await versionAt(restarted, name), '1.1.0')
    // We don't record the change, as if all gateways had been down.
    await database.db.updateTable('endpoint').set({ description: 'changed' }).where('id', '=', id).execute()
    await using later = await startApi({ database })
    assert.equal(await versionAt(later, name), '1.1.1')
  })

  it('is left unchanged when a gateway from a later release has written it under different rules', async () => {
    const { id, name } = await build()
    await database.db
      .updateTable('tool_version')
      .set({ format: 1_000, version: '7.0.0', digest: Buffer.alloc(32) })
      .where('endpoint_id', '=', id)
      .execute()

    await change(id, { description: 'changed' })
    await seenByAll(name, '7.0.0')
    assert.equal(await stored(id), '7.0.0')
  })

  it('notifies subscribers when it changes, with the account whose tools have changed', async () => {
    const { id } = await build()
    const [gateway] = gateways
    const heard: (string | undefined)[] = []
    const stop = gateway!.services.tools.onChange((account) => heard.push(account))

    await change(id, { description: 'for the owner alone' })
    await until(() => heard.length > 0)
    assert.deepEqual([...new Set(heard)], [accountId])
    await change(id, { visibility: 'public', review_status: 'approved' })
    await until(() => heard.includes(undefined))
    stop()
    const count = heard.length
    await change(id, { description: 'unheard' })
    await seenByAll((await endpointRepository.findEndpoint(database.db, id))?.name ?? '', '1.0.2')
    assert.equal(heard.length, count)

    // This includes a gateway that hasn't served any tools yet.
    await using idle = await startApi({ database })
    let isNotified = false
    idle.services.tools.onChange(() => {
      isNotified = true
    })
    await until(async () => {
      await change(id, { tags: [String(Math.random())] })
      return isNotified
    })
  })
})
