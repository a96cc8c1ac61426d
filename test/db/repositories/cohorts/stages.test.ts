import assert from 'node:assert/strict'
import { recordStep } from '../../../../db/repositories/cohorts/stages.ts'
import { newId } from '../../../../domain/ids.ts'
import { buildCohort, buildStage } from '../../../support/builders/cohorts.ts'
import { startDatabase, type TestDatabase } from '../../../support/servers/database.ts'

describe('stages of cohorts', () => {
  let database: TestDatabase
  let accountId: string
  before(async () => {
    database = await startDatabase()
    accountId = newId()
    await database.db.insertInto('account').values({ id: accountId, name: 'test' }).execute()
  })
  after(() => database[Symbol.asyncDispose]())

  const readStage = (id: string) =>
    database.db.selectFrom('cohort_stage').selectAll().where('id', '=', id).executeTakeFirstOrThrow()

  it('are loaded at the latest when they run, and not anew where that was told before', async () => {
    const { db } = database
    const cohort = await buildCohort(db, accountId)
    const told = new Date(Date.now() - 5_000)
    const silent = await buildStage(db, cohort, { status: 'loading' })
    const loaded = await buildStage(db, cohort, { status: 'waiting', loaded_at: told })

    for (const stage of [silent, loaded])
      assert.equal(await db.transaction().execute((trx) => recordStep(trx, stage, 'running')), true)

    const [first, second] = [await readStage(silent.id), await readStage(loaded.id)]
    assert.ok(first.loaded_at)
    assert.deepEqual(first.loaded_at, first.started_at)
    assert.deepEqual(second.loaded_at, told)
  })
})
