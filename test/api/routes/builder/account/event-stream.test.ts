import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { sql } from 'kysely'
import { MAX_STREAMS } from '../../../../../api/http/connections/stream-slots.ts'
import { followEvents } from '../../../../../api/routes/builder/account/follow-events.ts'
import { presentEvent } from '../../../../../api/routes/builder/account/present-event.ts'
import { hearth } from '../../../../../client/index.ts'
import { listEventsSince } from '../../../../../db/repositories/platform/event-feed.ts'
import * as webhookEventRepository from '../../../../../db/repositories/webhooks/events.ts'
import { newId } from '../../../../../domain/ids.ts'
import { firstIdAt, timeOfId } from '../../../../../domain/uuid.ts'
import { followRun } from '../../../../support/assertions/run-stream.ts'
import { SOON_MS, until } from '../../../../support/assertions/until.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

const PATH = '/api/builder/v1/events/stream'

describe("an account's event stream", function () {
  this.timeout(60_000)
  let api: TestApi
  let accountId: string
  let key: string
  before(async () => {
    api = await startApi({ env: { HEARTH_STREAM_KEEPALIVE_S: '1' } })
  })
  after(() => api[Symbol.asyncDispose]())
  beforeEach(async () => {
    ;({ accountId, key } = await api.account())
  })

  const follow = (query = '', lastEventId?: string, of = key) =>
    followRun(`${api.baseUrl}${PATH}${query}`, { key: of, lastEventId })
  const write = async (
    type:
      | 'training.run.completed'
      | 'training.run.failed'
      | 'inference.task.succeeded' = 'training.run.completed',
    of = accountId,
  ): Promise<string> => {
    const { db } = api.database
    const resource = newId()
    await db.transaction().execute((trx) =>
      webhookEventRepository.insertEvents(
        trx,
        [
          {
            accountId: of,
            type,
            resource: { id: resource, object: 'training.run', status: 'completed' },
            resourceUrl: `/api/builder/v1/training/runs/${resource}`,
          },
        ],
        new Date(),
      ),
    )
    const { id } = await db
      .selectFrom('event')
      .select('id')
      .where('resource_id', '=', resource)
      .executeTakeFirstOrThrow()
    return id
  }
  const ids = (stream: { events: { id: string }[] }) => stream.events.map(({ id }) => id)

  it('starts with new events and delivers each one as the list shows it, within a second', async () => {
    await write()
    const stranger = await api.account()
    using stream = await follow()
    await write('training.run.completed', stranger.accountId)
    await write('inference.task.succeeded')

    const beganAt = performance.now()
    const id = await write('training.run.failed')
    await until(() => stream.events.length > 0, SOON_MS)

    // A notification wakes the stream; the periodic read would take up to 15 s.
    assert.ok(performance.now() - beganAt < SOON_MS)
    assert.deepEqual(ids(stream), [id])
    const { events } = (await api.call('GET', '/api/builder/v1/events?limit=1', { key })).body
    assert.deepEqual([stream.events[0]?.event, stream.events[0]?.data], ['training.run.failed', events[0]])
  })

  it('resumes after an event, and delivers one that was committed late', async () => {
    const [first, second] = [await write(), await write()]
    using again = await follow(`?after=${first}`)
    await until(() => again.events.length > 0, SOON_MS)
    assert.deepEqual(ids(again), [second])
    using browser = await follow(`?after=${newId()}`, first)
    await until(() => browser.events.length > 0, SOON_MS)

    // Its id is older than that of the previously delivered event.
    const late = firstIdAt(new Date(timeOfId(second) - 3_000))
    await sql`insert into event (id, account_id, type, resource_id, payload)
      select ${late}, account_id, type, ${newId()}, payload from event where id = ${second}`.execute(
      api.database.db,
    )

    await until(() => again.events.length > 1, SOON_MS)
    assert.deepEqual(ids(again), [second, late])
    const third = await write()
    await until(() => again.events.length > 2, SOON_MS)
    assert.deepEqual(ids(again), [second, late, third])
  })

  it('delivers more than one page of events, once each', async () => {
    using stream = await follow()
    const written: string[] = []
    for (let n = 0; n < 40; n++)
      written.push(...(await Promise.all(Array.from({ length: 30 }, () => write()))))

    await until(() => stream.events.length >= written.length, 30_000)

    assert.equal(stream.events.length, written.length)
    assert.deepEqual(new Set(ids(stream)), new Set(written))
  })

  it('filters by type, and reports invalid parameters', async () => {
    using stream = await follow('?type=training.run.failed')
    await write()
    const id = await write('training.run.failed')
    await until(() => stream.events.length > 0, SOON_MS)
    assert.deepEqual(ids(stream), [id])

    for (const [query, parameter] of [
      ['?after=x', 'after'],
      ['?after=00000000-0000-4000-8000-000000000000', 'after'],
      ['?type=shoe', 'type'],
    ] as const) {
      const { status, text } = await api.call('GET', `${PATH}${query}`, { key })
      assert.equal(status, 422)
      assert.ok(text.includes(`"${parameter}"`), text)
    }
  })

  it('is limited per account, cleans up on disconnect, and sends keep-alive comments', async () => {
    const { eventFollowers } = api.services
    await until(() => eventFollowers.size === 0, SOON_MS)
    const streams = await Promise.all(Array.from({ length: MAX_STREAMS }, () => follow()))
    const more = await api.call('GET', PATH, { key })
    assert.deepEqual([more.status, more.body.error.code], [429, 'rate_limited'])
    assert.ok(more.headers['retry-after'])
    await until(
      () => streams[0]?.comments.some((one) => one.startsWith(': keep-alive')) ?? false,
      5 * SOON_MS,
    )
    for (const stream of streams) stream[Symbol.dispose]()

    await until(() => eventFollowers.size === 0, SOON_MS)
  })

  it('reads events of other types only once, and sends an id to resume after them', async () => {
    const { db } = api.database
    const past = firstIdAt(new Date(Date.now() - 3_600_000))
    await sql`insert into event (id, account_id, type, resource_id, payload)
      select overlay(uuidv7(make_interval(secs => n - 3600))::text placing '7' from 15 for 1)::uuid, ${accountId},
        'training.run.failed', uuidv7(), '\x7b7d'
      from generate_series(1, 1200) n`.execute(db)
    const reads: { from: string; count: number }[] = []
    const server = createServer((_, res) => {
      const leaving = new AbortController()
      res.on('close', () => leaving.abort())
      const watch = api.services.eventFollowers.follow(accountId, accountId)
      void followEvents(api.services, {
        async read(range) {
          const events = await listEventsSince(db, accountId, range)
          reads.push({ from: range.from, count: events.length })
          return events
        },
        type: 'training.run.completed',
        present: presentEvent,
        after: past,
        watch,
        res,
        signal: leaving.signal,
      }).finally(() => watch[Symbol.dispose]())
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    using stream = await followRun(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { key })
    await until(() => stream.comments.length > 1, SOON_MS)

    assert.deepEqual(
      reads.map(({ count }) => count).filter((count) => count > 0),
      [500, 500, 200],
    )
    const looked = timeOfId(reads.at(-1)!.from)
    assert.ok(looked >= Date.now() - 2_415_000, new Date(looked).toISOString())
    const resumeId = /^: keep-alive\nid: (\S+)$/.exec(stream.comments.at(-1) ?? '')?.[1] ?? ''
    assert.ok(timeOfId(resumeId) - looked === 10_000, stream.comments.join('\n'))
    const id = await write()
    await until(() => stream.events.length > 0, SOON_MS)
    assert.deepEqual(ids(stream), [id])
    stream[Symbol.dispose]()
    server.close()
  })

  it('loses no events when a client that has not received any yet reconnects', async () => {
    const other = await startApi({ database: api.database })
    const opened: string[] = []
    let hasReceived = false
    const moving = async (url: string, init?: RequestInit) => {
      opened.push(url)
      const answer = await fetch(opened.length === 1 ? url : url.replace(other.baseUrl, api.baseUrl), init)
      const watched = new TransformStream({
        transform: (bytes: Uint8Array, controller) => {
          controller.enqueue(bytes)
          hasReceived = true
        },
      })
      return new Response(answer.body?.pipeThrough(watched), answer)
    }
    const events = hearth({ baseUrl: other.baseUrl, apiKey: key, fetch: moving }).followEvents()
    const next = events.next()
    // The resume point comes with the first bytes of the response; a client that disconnects earlier starts over.
    await until(() => hasReceived, SOON_MS)
    await other[Symbol.asyncDispose]()
    assert.equal(opened.length, 1)

    const id = await write()

    assert.equal((await next).value?.id, id)
    await events.return()
  })

  it('ends when its gateway stops, and the client resumes on another without duplicates', async () => {
    const other = await startApi({ database: api.database })
    using stream = await followRun(`${other.baseUrl}${PATH}`, { key })
    const client = hearth({ baseUrl: api.baseUrl, apiKey: key })
    const [first, second] = [await write(), await write()]
    const events = client.followEvents({ after: first })
    assert.equal((await events.next()).value?.id, second)
    const third = await write()
    assert.equal((await events.next()).value?.id, third)
    await events.return()

    await other[Symbol.asyncDispose]()

    assert.equal(await stream.ended, true)
  })

  it('ends with an error within a second when its key is revoked or expires, unlike streams of other keys', async () => {
    const keyOf = async () => {
      const body = { name: 'follower' }
      const answer = await api.call('POST', '/api/builder/v1/keys', { key, body })
      return answer.body as { api_key: string; key_id: string }
    }
    const [revoked, shortened, lasting] = [await keyOf(), await keyOf(), await keyOf()]
    const follows = [revoked, shortened].map(({ api_key }) => follow('', undefined, api_key))
    const streams = await Promise.all(follows)
    using other = await follow('', undefined, lasting.api_key)

    const paths = [revoked, shortened].map(({ key_id }) => `/api/builder/v1/keys/${key_id}`)
    const soon = { expires_at: new Date(Date.now() + 1_500).toISOString() }
    assert.equal((await api.call('PATCH', paths[1]!, { key, body: soon })).status, 200)
    assert.equal((await api.call('DELETE', paths[0]!, { key })).status, 204)
    const revokedAt = performance.now()
    await streams[0]!.ended
    assert.ok(performance.now() - revokedAt < SOON_MS)
    for (const stream of streams) {
      assert.equal(await stream.ended, true)
      const { event, data } = stream.events.at(-1)!
      assert.deepEqual([event, data.code], ['error', 'unauthenticated'])
    }

    const id = await write()
    await until(() => other.events.length === 1, SOON_MS)
    assert.deepEqual([other.events[0]?.id, streams.flatMap(({ events }) => events).length], [id, 2])
  })
})
