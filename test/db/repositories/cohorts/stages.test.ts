import assert from 'node:assert/strict'
import { giveUpStage, lockStage, recordStep } from '../../../../db/repositories/cohorts/stages.ts'
import { takeLoaded } from '../../../../db/repositories/cohorts/starts.ts'
import { newId } from '../../../../domain/ids.ts'
import { buildCohort, buildEdge, buildStage } from '../../../support/builders/cohorts/cohorts.ts'
import { startDatabase, type TestDatabase } from '../../../support/servers/database.ts'

describe('cohort stages', () => {
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

  it('are marked as loaded when they run, unless the node reported the load earlier', async () => {
    const { db } = database
    const cohort = await buildCohort(db, accountId)
    const loadedAt = new Date(Date.now() - 5_000)
    const silent = await buildStage(db, cohort, { status: 'loading' })
    const loaded = await buildStage(db, cohort, { status: 'waiting', loaded_at: loadedAt })

    for (const stage of [silent, loaded])
      assert.equal(await db.transaction().execute((trx) => recordStep(trx, stage, 'running')), true)

    const [first, second] = [await readStage(silent.id), await readStage(loaded.id)]
    assert.ok(first.loaded_at)
    assert.deepEqual(first.loaded_at, first.started_at)
    assert.deepEqual(second.loaded_at, loadedAt)
  })
  it('are claimed only once, however often the node calls', async () => {
    const { db } = database
    const stage = await buildStage(db, await buildCohort(db, accountId), { status: 'called' })
    const take = () => db.transaction().execute((trx) => takeLoaded(trx, stage.id))

    assert.equal(await take(), true)
    const { loaded_at } = await readStage(stage.id)
    assert.equal(await take(), false)
    assert.deepEqual((await readStage(stage.id)).loaded_at, loaded_at)
  })

  it('receive nothing after they are abandoned', async () => {
    const { db } = database
    const cohort = await buildCohort(db, accountId)
    const producer = await buildStage(db, cohort, { status: 'succeeded' })
    const stage = await buildStage(db, cohort, { status: 'waiting' })
    const consumer = await buildStage(db, cohort, { status: 'pending' })
    const text = { kind: 'text', state: 'open', payload: Buffer.from('"a"') } as const
    await buildEdge(db, [producer, stage], { name: 'in', ...text })
    await buildEdge(db, [stage, consumer], { name: 'out' })

    await db.transaction().execute(async (trx) => {
      const locked = await lockStage(trx, stage.id)
      await giveUpStage(trx, locked!, { status: 'skipped', fault: undefined })
    })

    const edges = await db
      .selectFrom('cohort_edge')
      .select(['name', 'closed', 'payload'])
      .where('cohort_id', '=', cohort.id)
      .orderBy('name')
      .execute()
    assert.deepEqual(edges, [
      { name: 'in', closed: true, payload: null },
      { name: 'out', closed: true, payload: null },
    ])
  })

  it("hand over their default output, in the edge's template, along each edge whose path exists in it", async () => {
    const { db } = database
    const cohort = await buildCohort(db, accountId)
    const stage = await buildStage(db, cohort, { status: 'waiting' })
    const consumer = await buildStage(db, cohort, { status: 'pending' })
    await buildEdge(db, [stage, consumer], { name: 'as-is', from_path: '/text' })
    await buildEdge(db, [stage, consumer], { name: 'in-text', from_path: '/text', template: '<{{value}}>' })
    await buildEdge(db, [stage, consumer], { name: 'nothing', from_path: '/none' })

    await db.transaction().execute(async (trx) => {
      const locked = await lockStage(trx, stage.id)
      await giveUpStage(trx, locked!, { status: 'skipped', fault: undefined, spare: { text: 'a' } })
    })

    const edges = await db
      .selectFrom('cohort_edge')
      .select(['name', 'closed', 'payload'])
      .where('cohort_id', '=', cohort.id)
      .orderBy('name')
      .execute()
    assert.deepEqual(
      edges.map(({ name, closed, payload }) => [name, closed, payload?.toString()]),
      [
        ['as-is', false, '"a"'],
        ['in-text', false, '"<a>"'],
        ['nothing', true, undefined],
      ],
    )
  })
})
