import assert from 'node:assert/strict'
import { sql } from 'kysely'
import { hearth } from '../../../../../client/index.ts'
import { eventsQuery, listEvents } from '../../../../../db/repositories/platform/event-feed.ts'
import * as eventRepository from '../../../../../db/repositories/webhooks/events.ts'
import { newId } from '../../../../../domain/ids.ts'
import { type AnyBody, startApi, type TestApi } from '../../../../support/servers/api.ts'

const PATH = '/api/builder/v1/events'
const ALL = { type: undefined, since: undefined, until: undefined, before: undefined }

describe("an account's event feed", () => {
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())

  /** Stores events of these types in order; returns the ids of their resources. */
  async function happened(accountId: string, types: string[]): Promise<string[]> {
    const ids = types.map(() => newId())
    const events = types.map((type, i) => ({
      accountId,
      type,
      resource: { id: ids[i] ?? '', object: type.replace(/\.\w+$/, ''), status: type.replace(/.*\./, '') },
      resourceUrl: `/somewhere/${ids[i]}`,
    }))
    await eventRepository.insertEvents(api.database.db, events, new Date())
    return ids
  }

  it('lists what has ended, newest first, except for tasks that succeeded', async () => {
    const { accountId, key } = await api.account()
    const [run, , failed] = await happened(accountId, [
      'training.run.completed',
      'inference.task.succeeded',
      'inference.task.failed',
    ])

    const { body } = await api.call('GET', PATH, { key })

    assert.deepEqual(
      body.events.map(({ type, resource, resource_url }: AnyBody) => ({ type, resource, resource_url })),
      [
        {
          type: 'inference.task.failed',
          resource: { id: failed, object: 'inference.task', status: 'failed' },
          resource_url: `/somewhere/${failed}`,
        },
        {
          type: 'training.run.completed',
          resource: { id: run, object: 'training.run', status: 'completed' },
          resource_url: `/somewhere/${run}`,
        },
      ],
    )
  })

  it('contains no events of other accounts', async () => {
    const [one, other] = [await api.account(), await api.account()]
    await happened(one.accountId, ['training.run.failed'])

    assert.deepEqual((await api.call('GET', PATH, { key: other.key })).body.events, [])
  })

  it('is paged and filtered by type and time', async () => {
    const { accountId, key } = await api.account()
    await happened(accountId, ['training.run.failed', 'training.merge.failed', 'training.run.failed'])
    const h = hearth({ baseUrl: api.baseUrl, apiKey: key })

    const pages = await h.events({ limit: 1 }).all(10)
    const runs = await h.events({ type: 'training.run.failed' }).all(10)
    const older = await h.events({ until: '2020-01-01T00:00:00Z' }).all(10)

    assert.deepEqual(
      pages.map(({ type }) => type),
      ['training.run.failed', 'training.merge.failed', 'training.run.failed'],
    )
    assert.deepEqual([runs.length, older.length], [2, 0])
    assert.equal((await api.call('GET', `${PATH}?type=nothing`, { key })).status, 422)
  })

  it('reads a page through its index, which has no entries for tasks that succeeded', async () => {
    const { db } = api.database
    const [large, small] = [await api.account(), await api.account()]
    await sql`insert into event (id, account_id, type, resource_id, payload)
      select uuidv7(), case when n = 1 then ${small.accountId}::uuid else ${large.accountId}::uuid end,
        case when n % 10 = 1 then 'training.run.failed' else 'inference.task.succeeded' end, uuidv7(), '\x7b7d'
      from generate_series(1, 20000) n`.execute(db)
    await sql`analyze event`.execute(db)

    for (const { accountId } of [large, small]) {
      const [plan] = await eventsQuery(db, accountId, { ...ALL, limit: 21 }).explain('json', sql`analyze`)
      const text = JSON.stringify(plan)
      assert.match(text, /event_feed/)
      assert.doesNotMatch(text, /Seq Scan|Rows Removed by Filter":[1-9]/)
    }
    const rare = { ...ALL, type: 'training.run.completed', limit: 21 }
    const [plan] = await eventsQuery(db, large.accountId, rare).explain('json', sql`analyze, buffers`)
    const text = JSON.stringify(plan)
    assert.match(text, /event_feed_type/)
    assert.doesNotMatch(text, /Seq Scan|Rows Removed by Filter":[1-9]/)
    assert.equal((await listEvents(db, small.accountId, { ...ALL, limit: 21 })).length, 1)
    const { rows } = await sql<{ tuples: number }>`
      select reltuples::int as tuples from pg_class where relname = 'event_feed'`.execute(db)
    const { tuples = 0 } = rows[0] ?? {}
    assert.ok(tuples > 1_900 && tuples <= 2_100, `${tuples}`)
  })
})
