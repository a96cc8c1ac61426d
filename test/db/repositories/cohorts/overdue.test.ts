import assert from 'node:assert/strict'
import { sql } from 'kysely'
import { findOverdueCohorts } from '../../../../db/repositories/cohorts/edge-retries.ts'
import { findOverdueStages, takeOverdueStage } from '../../../../db/repositories/cohorts/overdue.ts'
import { sha256Hex } from '../../../../platform/signing.ts'
import type { EdgeState } from '../../../../schemas/cohorts/vocabulary.ts'
import { buildCohort, buildEdge, buildStage } from '../../../support/builders/cohorts/cohorts.ts'
import { startApi, type TestApi } from '../../../support/servers/api.ts'

const PAGE = 100
const LONG_AGO = new Date(Date.now() - 600_000)

describe('overdue stages and hand-overs', () => {
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())

  it('are signaled in turn, even if the workflows of earlier ones do not respond', async () => {
    const { db } = api.database
    const cohort = await buildCohort(db, (await api.account()).accountId)
    for (let position = 0; position < PAGE + 20; position++)
      await buildStage(db, cohort, {
        position,
        status: 'running',
        started_at: LONG_AGO,
        specification: JSON.stringify({ timeout_s: 1 }),
      })
    const stageIds = new Set<string>()
    const pass = async () => {
      const found = await findOverdueStages(db)
      for (const { id } of found) {
        stageIds.add(id)
        await db.transaction().execute((trx) => takeOverdueStage(trx, id))
      }
      return found.length
    }

    assert.deepEqual([await pass(), await pass(), await pass()], [PAGE, 20, 0])
    assert.equal(stageIds.size, PAGE + 20)
    await sql`update cohort_stage set overdue_at = overdue_at - interval '2 minutes'
      where cohort_id = ${cohort.id}`.execute(db)
    assert.equal(await pass(), PAGE, 'must be found again after a while')
  })

  it('are searched for only among hand-overs with both sides ready', async () => {
    const { db } = api.database
    const { accountId } = await api.account()
    /** Builds a hand-over to a consumer that has been loaded for a long time. */
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

  it('are found however many long transfers come before them, each by the deadline of its state', async () => {
    const { db } = api.database
    const { accountId } = await api.account()
    const handOver = async (readyAgoS: number) => {
      const at = new Date(Date.now() - 1_000 * readyAgoS)
      const cohort = await buildCohort(db, accountId)
      const from = await buildStage(db, cohort, { status: 'succeeded', completed_at: at })
      const to = await buildStage(db, cohort, { position: 1, loaded_at: at })
      return { id: cohort.id, between: [from, to] as const }
    }
    /** Adds a hand-over in a state, with its last call `calledAgoS` seconds ago. */
    const add = async (
      { between }: Awaited<ReturnType<typeof handOver>>,
      state: EdgeState,
      calledAgoS: number,
    ) => {
      const { id } = await buildEdge(db, between, { state, sha256: sha256Hex(state) })
      await sql`insert into cohort_edge_attempt (edge_id, attempt, state, called_at)
        values (${id}, 1, ${state}, now() - make_interval(secs => ${calledAgoS}))`.execute(db)
    }
    const earlier = new Set(await findOverdueCohorts(db))
    const long = await handOver(600)
    for (let i = 0; i < 510; i++) await add(long, 'open', 5)
    const expected: string[] = []
    for (const [state, readyAgoS, calledAgoS, isLate] of [
      ['open', 600, 15, true],
      ['open', 600, 5, false],
      ['negotiating', 35, 0, true],
      ['negotiating', 20, 600, false],
      ['connecting', 600, 35, true],
      ['negotiated', 600, 20, false],
      ['transferred', 600, 65, true],
      ['transferred', 600, 50, false],
    ] as const) {
      const made = await handOver(readyAgoS)
      await add(made, state, calledAgoS)
      if (isLate) expected.push(made.id)
    }
    const ended = await buildCohort(db, accountId, { deadline_at: new Date(Date.now() - 1_000) })
    const [from, to] = [
      await buildStage(db, ended, { status: 'succeeded', completed_at: new Date() }),
      await buildStage(db, ended, { position: 1, loaded_at: new Date() }),
    ]
    await add({ id: ended.id, between: [from, to] }, 'open', 0)

    const found = (await findOverdueCohorts(db)).filter((id) => !earlier.has(id))

    assert.deepEqual(found.toSorted(), [...expected, ended.id].toSorted())
  })
})
