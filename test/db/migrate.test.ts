import assert from 'node:assert/strict'
import { migrate } from '../../db/migrate.ts'
import { startDatabase, type TestDatabase } from '../support/database.ts'

describe('migrate', () => {
  let database: TestDatabase
  before(async () => {
    database = await startDatabase()
  })
  after(() => database[Symbol.asyncDispose]())

  it('applies nothing to a database that is already migrated', async () => {
    assert.deepEqual(await migrate(database.db), [])
  })

  it('may run from several processes at once', async () => {
    const applied = await Promise.all([migrate(database.db), migrate(database.db), migrate(database.db)])

    assert.deepEqual(applied.flat(), [])
  })
})
