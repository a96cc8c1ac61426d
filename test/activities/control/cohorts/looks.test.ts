import assert from 'node:assert/strict'
import type { Kysely } from 'kysely'
import { createCohortActivities } from '../../../../activities/control/cohorts/cohorts.ts'
import type { Database } from '../../../../db/tables.ts'
import { newId } from '../../../../domain/ids.ts'
import { buildEndpoint, buildVersion } from '../../../support/builders/build-endpoint.ts'
import { buildCohort, buildStage } from '../../../support/builders/cohorts/cohorts.ts'
import { startApi, type TestApi } from '../../../support/servers/api.ts'

/** No node is connected, so every stage waits. */
describe('findRoom', () => {
  let api: TestApi
  before(async () => (api = await startApi()))
  after(() => api[Symbol.asyncDispose]())

  async function waitingStages(count: number) {
    const { db } = api.database
    const { accountId } = await api.account()
    const { id, model_key } = await buildVersion(db, accountId)
    const endpoint = await buildEndpoint(db, accountId, { version_id: id, model_key })
    const request = JSON.stringify({ edges: [], outputs: [], constraints: {} })
    const cohort = await buildCohort(db, accountId, { request })
    const stages = []
    for (let position = 0; position < count; position++) {
      const name = `s${position}`
      const placement = { node_ids: [newId()] }
      const spec = { stage_id: name, endpoint_id: endpoint.id, input: {}, fallbacks: [], placement }
      const { id: stageId } = await buildStage(db, cohort, {
        name,
        position,
        status: 'pending',
        specification: JSON.stringify(spec),
        endpoint_id: endpoint.id,
        model_key,
      })
      stages.push({ stageId, avoid: [newId()] })
    }
    const notes = () =>
      db
        .selectFrom('cohort_stage')
        .select(['name', 'waiting_for'])
        .where('cohort_id', '=', cohort.id)
        .where('waiting_for', 'is not', null)
        .execute()
    return { asked: { cohortId: cohort.id, stages }, notes }
  }

  function steps(db: Kysely<Database>, now = api.services.now) {
    const { objects, catalog, config, log, temporal } = api.services
    return createCohortActivities({ db, objects, catalog, config, log, now, temporal })
  }

  it('makes as many queries for 64 stages as for two, and records what each is waiting for', async () => {
    let queries = 0
    const counted = api.database.db.withPlugin({
      transformQuery: ({ node }) => {
        queries += 1
        return node
      },
      transformResult: ({ result }) => Promise.resolve(result),
    })
    const ofLook = async (count: number) => {
      const { asked: cohortStages, notes } = await waitingStages(count)
      queries = 0
      assert.deepEqual(await steps(counted).findRoom(cohortStages), [])
      const made = queries
      const noted = await notes()
      assert.equal(noted.length, count)
      for (const { name, waiting_for } of noted)
        assert.match(
          waiting_for ?? '',
          new RegExp(`^a node that can run stage "${name}": .*no node has the id`),
        )
      return made
    }

    const few = await ofLook(2)
    assert.ok(few > 0 && few <= 10, `${few} queries`)
    assert.equal(await ofLook(64), few)
  })

  it('returns within seconds, and later calls reach every stage', async () => {
    const { asked, notes } = await waitingStages(12)
    let time = Date.now()
    // Each read of the clock advances it by a second.
    const slow = steps(api.database.db, () => new Date((time += 1_000)))
    await slow.findRoom(asked)
    const { length: first } = await notes()
    assert.ok(first > 0 && first < 9, `${first} stages in eight seconds`)

    for (let looks = 0; looks < 200 && (await notes()).length < 12; looks++) await slow.findRoom(asked)
    assert.equal((await notes()).length, 12)
  })
})
