import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { sql } from 'kysely'
import { type CohortEnding, endCohort } from '../../../../../db/repositories/cohorts/endings.ts'
import { EdgeState } from '../../../../../schemas/cohorts/vocabulary.ts'
import { valuesOf } from '../../../../../schemas/common.ts'
import { buildCohort, buildEdge, buildStage } from '../../../../support/builders/cohorts/cohorts.ts'
import { type AnyBody, startApi, type TestApi } from '../../../../support/servers/api.ts'

const MIGRATION = new URL('../../../../../db/migrations/0103-edges-of-ended-cohorts.sql', import.meta.url)
const EDGE_STATES = valuesOf(EdgeState) as EdgeState[]
const fault = { code: 'deadline_exceeded', message: 'it took too long' }
const ENDINGS: readonly CohortEnding[] = [
  { status: 'cancelled', fault: { code: 'cancelled', message: 'by its caller' } },
  { status: 'failed', fault },
  { status: 'succeeded' },
]

describe('the hand-overs of a cohort that ends', () => {
  let api: TestApi
  before(async () => (api = await startApi()))
  after(() => api[Symbol.asyncDispose]())

  /** Builds a cohort with a hand-over in each state, and an attempt for each one that nodes have started. */
  async function withEdges() {
    const { db } = api.database
    const { accountId, key } = await api.account()
    const cohort = await buildCohort(db, accountId, {
      request: JSON.stringify({ stages: [], edges: [], outputs: [] }),
    })
    const [from, to] = [
      await buildStage(db, cohort, { name: 'a', status: 'succeeded' }),
      await buildStage(db, cohort, { name: 'b', status: 'skipped', position: 1 }),
    ]
    for (const state of EDGE_STATES) {
      const failure = state === 'failed' ? 'no_room' : null
      const edge = await buildEdge(db, [from, to], { name: state, state, attempt: 2, failure })
      for (const attempt of state === 'planned' ? [1] : [1, 2])
        await sql`insert into cohort_edge_attempt (edge_id, attempt, state, failure)
          values (${edge.id}, ${attempt}, ${attempt === 1 ? 'failed' : state}, ${attempt === 1 ? 'expired' : failure})`.execute(
          db,
        )
    }
    const read = async (path = '') => {
      const headers = { 'x-account-id': accountId }
      const { body } = await api.call<AnyBody>('GET', `/api/v1/tasks/${cohort.task_id}/cohort${path}`, {
        key,
        headers,
      })
      return body
    }
    return { cohort, read }
  }

  const shown = ({ edges }: AnyBody): Record<string, unknown> =>
    Object.fromEntries(edges.map(({ name, state, failure }: AnyBody) => [name, [state, failure]]))
  const ended = Object.fromEntries(
    EDGE_STATES.map((state): [string, unknown] => [state, ['failed', 'cancelled']]),
  )
  Object.assign(ended, { consumed: ['consumed', null], failed: ['failed', 'no_room'] })

  /** Returns first attempts that have changed, and later ones whose state differs from their edge's. */
  async function strays(cohortId: string) {
    const { rows } = await sql`select edge.name, tried.attempt, tried.state, tried.failure
      from cohort_edge_attempt tried join cohort_edge edge on edge.id = tried.edge_id
      where edge.cohort_id = ${cohortId}::uuid and concat(tried.state, ' ', tried.failure) <>
        case tried.attempt when 1 then 'failed expired' else concat(edge.state, ' ', edge.failure) end`.execute(
      api.database.db,
    )
    return rows
  }

  for (const ending of ENDINGS)
    it(`end with the cohort and stay ended when it has ${ending.status}`, async () => {
      const { cohort, read } = await withEdges()
      const end = () =>
        api.database.db.transaction().execute((trx) => endCohort(trx, cohort.id, ending, new Date()))

      assert.deepEqual([await end(), await end()], [true, false])

      assert.deepEqual(shown(await read()), ended)
      assert.deepEqual(await strays(cohort.id), [])
      const names = new Map((await read()).edges.map(({ edge_id, name }: AnyBody) => [edge_id, name]))
      const { events } = await read('/events')
      const failures = events.filter(({ type }: AnyBody) => type === 'edge.failed')
      assert.deepEqual(failures.map(({ edge_id }: AnyBody) => names.get(edge_id)).toSorted(), [
        'connecting',
        'negotiated',
        'negotiating',
        'open',
        'transferred',
      ])
      for (const { attempt, data } of failures)
        assert.deepEqual([attempt, data], [2, { failure: 'cancelled' }])
      assert.equal(events.at(-1).type, `cohort.${ending.status}`)
    })

  it('do not count as failures in the health of cohorts', async () => {
    const { accountId, key } = await api.account()
    const cohort = await buildCohort(api.database.db, accountId)
    const [from, to] = [
      await buildStage(api.database.db, cohort, { name: 'a' }),
      await buildStage(api.database.db, cohort, { name: 'b', position: 1 }),
    ]
    await buildEdge(api.database.db, [from, to], { state: 'negotiating' })
    await api.database.db.transaction().execute((trx) => endCohort(trx, cohort.id, ENDINGS[0]!, new Date()))

    const { body } = await api.call<AnyBody>('GET', '/api/v1/cohorts/health', {
      key,
      headers: { 'x-account-id': accountId },
    })

    assert.deepEqual(body.edges, { open: 0, held_bytes: 0, failed_1h: 0, relayed_1h: 0 })
  })

  it('are ended by a migration if their cohort ended earlier, while those of a running cohort continue', async () => {
    const [before, open] = [await withEdges(), await withEdges()]
    const { db } = api.database
    await db.updateTable('cohort').set({ status: 'failed' }).where('id', '=', before.cohort.id).execute()

    await sql.raw(await readFile(MIGRATION, 'utf8')).execute(db)

    assert.deepEqual(shown(await before.read()), ended)
    assert.deepEqual(await strays(before.cohort.id), [])
    assert.deepEqual(shown(await open.read()), {
      ...Object.fromEntries(EDGE_STATES.map((state) => [state, [state, null]])),
      failed: ['failed', 'no_room'],
    })
  })
})
