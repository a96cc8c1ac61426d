import assert from 'node:assert/strict'
import { EndpointCache } from '../../../../api/gateway/caches/endpoint-cache.ts'
import { newId } from '../../../../domain/ids.ts'
import { buildEndpoint } from '../../../support/builders/build-endpoint.ts'
import { startDatabase, type TestDatabase } from '../../../support/servers/database.ts'

const MIB = 1024 * 1024
const FRESH = { on: () => {}, isFresh: () => true }

const columns = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`column_${i}`, { type: 'number' }]))
const table = (count: number) => ({
  type: 'object',
  required: ['instances'],
  properties: {
    instances: {
      type: 'array',
      items: {
        type: 'object',
        properties: columns(count),
        required: ['column_0'],
        additionalProperties: false,
      },
    },
  },
})

describe('the endpoint cache', () => {
  let database: TestDatabase
  before(async () => {
    database = await startDatabase()
  })
  after(() => database[Symbol.asyncDispose]())

  it('is bounded in bytes: many endpoints with large schemas stay within 16 MB', async () => {
    const cache = new EndpointCache(database.db, FRESH)
    const accountId = newId()
    await database.db.insertInto('account').values({ id: accountId, name: 'test' }).execute()
    const schema = JSON.stringify(table(25_000))
    for (let i = 0; i * schema.length < 20 * MIB; i++) {
      const { id } = await buildEndpoint(database.db, accountId, { input_schema: schema })
      assert.ok(await cache.find(id.toUpperCase()))
      assert.ok(await cache.find(id))
    }

    assert.ok(cache.bytes > 12 * MIB)
    assert.ok(cache.bytes <= 16 * MIB)
  })
})
