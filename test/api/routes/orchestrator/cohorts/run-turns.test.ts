import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { newId } from '../../../../../domain/ids.ts'
import { buildEndpoint, buildVersion } from '../../../../support/builders/build-endpoint.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

/** No node is connected, so a run is refused once it has been read. */
const REFUSED = 409

describe('cohort runs that take a long time to read', () => {
  let api: TestApi
  before(async () => (api = await startApi()))
  after(() => api[Symbol.asyncDispose]())

  it('wait for a turn of their account without holding a transaction', async () => {
    const { accountId, key } = await api.account()
    const { db } = api.database
    const { id, model_key } = await buildVersion(db, accountId)
    const { id: endpoint_id } = await buildEndpoint(db, accountId, { version_id: id, model_key })
    const graph = (bytes: number) => ({
      stages: [{ stage_id: 'a', endpoint_id, input: { instances: ['x'.repeat(bytes)] } }],
      edges: [],
    })
    const post = async (path: string, body: object) =>
      api.call('POST', `/api/v1/${path}`, {
        key,
        headers: { 'x-account-id': accountId, 'x-user-id': 'someone' },
        body,
      })
    const planned = async (bytes: number): Promise<string> => {
      const { status, body, text } = await post('cohorts:plan', graph(bytes))
      assert.equal(status, 200, text)
      return body.plan_id
    }
    const [small, large] = [await planned(10), await planned(400_000)]
    let answered = 0
    const run = async (body: object) => {
      const { status, text } = await post('cohorts:run', { input: {}, ...body })
      answered += 1
      assert.equal(status, REFUSED, text)
    }

    const turn = await api.services.longAnswers.take(accountId, AbortSignal.timeout(60_000))
    const waiting = [
      run({ plan_id: large }),
      run({ plan: graph(400_000) }),
      run({ plan_id: small, resume_of: newId() }),
    ]
    await run({ plan_id: small })
    await run({ plan: graph(10) })
    await sleep(300)
    assert.equal(answered, 2)
    const { rows } = await sql`select from pg_stat_activity
      where datname = current_database() and state like 'idle in transaction%'`.execute(db)
    assert.equal(rows.length, 0)

    turn[Symbol.dispose]()
    await Promise.all(waiting)
  })
})
