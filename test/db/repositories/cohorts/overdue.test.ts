import assert from 'node:assert/strict'
import { sql } from 'kysely'
import { findOverdueCohorts } from '../../../../db/repositories/cohorts/edge-retries.ts'
import { findOverdueStages, takeOverdueStage } from '../../../../db/repositories/cohorts/overdue.ts'
import { buildCohort, buildEdge, buildStage } from '../../../support/builders/cohorts.ts'
import { startApi, type TestApi } from '../../../support/servers/api.ts'

const PAGE = 100
const LONG_AGO = new Date(Date.now() - 600_000)

describe('what takes too long', () => {
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())

  it('is told in turn, though the workflows of those before do not answer', async () => {
    const { db } = api.database
    const cohort = await buildCohort(db, (await api.account()).accountId)
    for (let position = 0; position < PAGE + 20; position++)
      await buildStage(db, cohort, {
        position,
        status: 'running',
        started_at: LONG_AGO,
        specification: JSON.stringify({ timeout_s: 1 }),
      })
    const told = new Set<string>()
    const pass = async () => {
      const found = await findOverdueStages(db)
      for (const { id } of found) {
        told.add(id)
        await db.transaction().execute((trx) => takeOverdueStage(trx, id))
      }
      return found.length
    }

    assert.deepEqual([await pass(), await pass(), await pass()], [PAGE, 20, 0])
    assert.equal(told.size, PAGE + 20)
    await sql`update cohort_stage set overdue_at = overdue_at - interval '2 minutes'
      where cohort_id = ${cohort.id}`.execute(db)
    assert.equal(await pass(), PAGE, 'and again after a while')
  })

  it('is looked for among hand-overs whose sides are ready', async () => {
    const { db } = api.database
    const { accountId } = await api.account()
    /** Builds a hand-over to a consumer that has been loaded for long. */
    const handOver = async (completed_at: Date | null) => {
      const cohort = await buildCohort(db, accountId)
      const done = completed_at ? ({ status: 'succeeded', completed_at } as const) : {}
      const from = await buildStage(db, cohort, done)
      const to = await buildStage(db, cohort, { position: 1, loaded_at: LONG_AGO })
      await buildEdge(db, [from, to])
      return cohort.id
    }
    const late = await handOver(LONG_AGO)
    for (let i = 0; i < 20; i++) await handOver(null)
    const read: number[] = []
    const counted = db.withPlugin({
      transformQuery: ({ node }) => node,
      transformResult({ result }) {
        read.push(result.rows.length)
        return Promise.resolve(result)
      },
    })

    assert.deepEqual(await findOverdueCohorts(counted), [late])
    assert.deepEqual(read, [1])
  })
})
