import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { toApiError } from '../../api/http/errors.ts'
import { startDatabase, type TestDatabase } from '../support/servers/database.ts'

describe('database', () => {
  let database: TestDatabase
  before(async () => {
    database = await startDatabase()
  })
  after(() => database[Symbol.asyncDispose]())

  it('reports a connection broken in a transaction to the next statement, without crashing the process', async () => {
    const { db } = database
    const broken = db.transaction().execute(async (trx) => {
      const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(trx)
      await sql`select pg_terminate_backend(${rows[0]?.pid})`.execute(db)
      await sleep(100)
      await sql`select 1`.execute(trx)
    })

    await assert.rejects(broken, (err) => toApiError(err).code === 'unavailable')
    assert.equal((await sql`select 1 as one`.execute(db)).rows.length, 1)
  })
})
