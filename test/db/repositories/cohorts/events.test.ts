import assert from 'node:assert/strict'
import { appendCohortEvents, type NewCohortEvent } from '../../../../db/repositories/cohorts/events.ts'
import { newId } from '../../../../domain/ids.ts'
import { buildCohort } from '../../../support/builders/cohorts/cohorts.ts'
import { startDatabase, type TestDatabase } from '../../../support/servers/database.ts'

describe('cohort events (2.4)', () => {
  let database: TestDatabase
  let accountId: string
  before(async () => {
    database = await startDatabase()
    accountId = newId()
    await database.db.insertInto('account').values({ id: accountId, name: 'test' }).execute()
  })
  after(() => database[Symbol.asyncDispose]())

  const append = (cohortId: string, events: NewCohortEvent[]) =>
    database.db.transaction().execute((trx) => appendCohortEvents(trx, cohortId, events))
  const eventsOf = (cohortId: string) =>
    database.db
      .selectFrom('cohort_event')
      .select(['sequence', 'type', 'data'])
      .where('cohort_id', '=', cohortId)
      .orderBy('sequence')
      .execute()

  it('are numbered without gaps, even with concurrent writers', async () => {
    const { id } = await buildCohort(database.db, accountId)

    await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        append(id, [{ type: 'stage.loading' }, { type: 'stage.started', data: { i } }]),
      ),
    )

    const events = await eventsOf(id)
    assert.deepEqual(
      events.map(({ sequence }) => sequence),
      Array.from({ length: 16 }, (_, i) => i + 1),
    )
    for (const [i, { type }] of events.entries())
      assert.equal(type, i % 2 === 0 ? 'stage.loading' : 'stage.started')
  })

  it('omit only progress after 5,000 events', async () => {
    const { id } = await buildCohort(database.db, accountId, { event_sequence: 5_000 })

    await append(id, [{ type: 'edge.progress' }])
    await append(id, [{ type: 'edge.progress' }, { type: 'edge.transferred' }])

    const events = await eventsOf(id)
    assert.deepEqual(
      events.map(({ sequence, type }) => [sequence, type]),
      [[5_001, 'edge.transferred']],
    )
  })
})
