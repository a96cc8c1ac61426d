import assert from 'node:assert/strict'
import { EndpointCache } from '../../api/endpoint-cache.ts'
import type { CallableEndpointRow } from '../../db/repositories/callable-endpoints.ts'
import { newId } from '../../domain/ids.ts'
import { buildEndpoint } from '../support/build-endpoint.ts'
import { startDatabase, type TestDatabase } from '../support/database.ts'

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

describe('the cache of endpoints', () => {
  let database: TestDatabase
  before(async () => {
    database = await startDatabase()
  })
  after(() => database[Symbol.asyncDispose]())

  const rowWith = (input_schema: Record<string, unknown>) =>
    ({ id: newId(), input_schema }) as unknown as CallableEndpointRow

  it('holds bytes and not rows: many endpoints with large schemas stay within 16 MB', async () => {
    const cache = new EndpointCache(database.db, FRESH)
    const accountId = newId()
    await database.db.insertInto('account').values({ id: accountId, name: 'test' }).execute()
    const schema = JSON.stringify(table(25_000))
    for (let i = 0; i * schema.length < 20 * MIB; i++) {
      const { id } = await buildEndpoint(database.db, accountId, { input_schema: schema })
      assert.ok(await cache.find(id.toUpperCase()))
      assert.ok(await cache.find(id))
    }

    assert.ok(cache.bytes.rows > 12 * MIB)
    assert.ok(cache.bytes.rows <= 16 * MIB)
  })

  it('holds compiled schemas within 32 MB', () => {
    const cache = new EndpointCache(database.db, FRESH)
    const size = 32 * 1024 + 6 * JSON.stringify(table(20)).length
    for (let i = 0; i < 20; i++) cache.checkInput(rowWith(table(20)), { instances: [] })

    assert.equal(cache.bytes.compiled, 20 * size)
  })

  it('leaves the columns of very wide tables to the model, and checks the rest', () => {
    const cache = new EndpointCache(database.db, FRESH)
    const wide = rowWith(table(3_000))
    cache.checkInput(wide, { instances: [{ column_1: 1 }] })

    assert.throws(
      () => cache.checkInput(wide, { instances: [1] }),
      /body\.input\.instances\.0: must be object/,
    )
    assert.throws(() => cache.checkInput(wide, {}), /body\.input\.instances: Field required/)
    assert.throws(
      () => cache.checkInput(rowWith(table(500)), { instances: [{ column_0: 1, column_1: 'x' }] }),
      /column_1: must be number/,
    )
  })
})
