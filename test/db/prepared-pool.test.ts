import assert from 'node:assert/strict'
import { CompiledQuery } from 'kysely'
import { PreparedPool } from '../../db/prepared-pool.ts'
import { startDatabase, type TestDatabase } from '../support/servers/database.ts'

const statement = <R>(text: string, ...parameters: unknown[]) =>
  CompiledQuery.raw(text, parameters) as CompiledQuery<R>

describe('the pool of prepared statements', () => {
  let database: TestDatabase
  before(async () => (database = await startDatabase()))
  after(() => database[Symbol.asyncDispose]())

  it('prepares a statement once, and keeps its connection when a statement fails', async () => {
    await using pool = new PreparedPool(database.url, { max: 1 })
    const ask = () =>
      pool.executeQuery(
        statement<{ pid: number; n: number }>('select pg_backend_pid() as pid, 10 / $1::int as n', 5),
      )
    const { rows: first } = await ask()

    await assert.rejects(pool.executeQuery(statement('select 1 / $1::int', 0)), { code: '22012' })

    const { rows: again } = await ask()
    assert.deepEqual(again, [{ pid: first[0]!.pid, n: 2 }])
    const { rows } = await pool.executeQuery(
      statement<{ n: number }>(
        "select count(*)::int as n from pg_prepared_statements where statement like '%10 / $1%' and $1",
        true,
      ),
    )
    // This statement and the one above.
    assert.equal(rows[0]!.n, 2)
  })

  it('continues on a new connection when the server has closed one', async () => {
    await using pool = new PreparedPool(database.url, { max: 1 })
    const { rows } = await pool.executeQuery(statement<{ pid: number }>('select pg_backend_pid() as pid'))
    await database.db.executeQuery(statement('select pg_terminate_backend($1)', rows[0]!.pid))

    let tries = 0
    const answer = async (): Promise<unknown> => {
      tries += 1
      return pool
        .executeQuery(statement('select 2 as n'))
        .catch((err) => (tries < 3 ? answer() : assert.fail(err)))
    }
    assert.ok(await answer())
  })
})
