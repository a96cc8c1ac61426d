import assert from 'node:assert/strict'
import { CompiledQuery, type Kysely } from 'kysely'
import { openDatabase } from '../../db/database.ts'
import type { Database } from '../../db/tables.ts'
import { startDatabase, type TestDatabase } from '../support/servers/database.ts'

/** More than the number of runs after which a connection prepares a statement. */
const USES = 8

describe('PreparingClient', () => {
  let database: TestDatabase
  before(async () => (database = await startDatabase({ isEmpty: true })))
  after(() => database[Symbol.asyncDispose]())

  const run = <R>(db: Kysely<Database>, text: string, ...parameters: unknown[]) =>
    db.executeQuery<R>(CompiledQuery.raw(text, parameters))
  const prepared = async (db: Kysely<Database>): Promise<string[]> => {
    const { rows } = await run<{ statement: string }>(db, 'select statement from pg_prepared_statements')
    return rows.map(({ statement }) => statement)
  }

  it('prepares only the statements it runs often, with their parameters', async () => {
    await using db = openDatabase(database.url, { max: 1 })
    const often = 'select $1::int + $2::int as sum'
    for (let i = 0; i < USES; i++) {
      const { rows } = await run<{ sum: number }>(db, often, i, 1)
      assert.deepEqual(rows, [{ sum: i + 1 }])
      if (i < 3) await run(db, 'select $1::int - 1 as less', i)
    }

    assert.deepEqual(await prepared(db), [often])
    await assert.rejects(run(db, often, 'x', 1), { code: '22P02' })
    assert.deepEqual((await run(db, often, 2, 2)).rows, [{ sum: 4 }])
  })

  it('keeps working when a migration adds columns that it reads', async () => {
    await using db = openDatabase(database.url, { max: 1 })
    await run(db, 'create table grown (id int, name text)')
    await run(db, "insert into grown values (1, 'a')")
    const all = 'select * from grown where id = $1'
    const some = 'select id, count(*)::int as rows from grown where id = $1 group by id'
    for (let i = 0; i < USES; i++) for (const text of [all, some]) await run(db, text, 1)
    assert.deepEqual(await prepared(db), [some])

    await run(db, 'alter table grown add column age int default 3')

    assert.deepEqual((await run(db, all, 1)).rows, [{ id: 1, name: 'a', age: 3 }])
    assert.deepEqual((await run(db, some, 1)).rows, [{ id: 1, rows: 1 }])
  })

  it('prepares a limited number of statements', async () => {
    await using db = openDatabase(database.url, { max: 1 })
    for (let n = 0; n < 120; n++)
      for (let i = 0; i < USES; i++) await run(db, `select $1::int + ${n} as sum`, i)

    assert.equal((await prepared(db)).length, 100)
  })
})
