import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { endRun, type RunEnding } from '../../../../../db/repositories/training/endings.ts'
import { beginAttempt } from '../../../../../db/repositories/training/jobs.ts'
import { followRun, type StreamEvent } from '../../../../support/assertions/run-stream.ts'
import { SOON_MS, until } from '../../../../support/assertions/until.ts'
import { createRun, readyDataset } from '../../../../support/builders/training.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

const RUNS = '/api/builder/v1/training/runs'

describe("a training run's stream", () => {
  let api: TestApi
  let key: string
  let accountId: string
  let runId: string
  let seq = 0

  before(async () => {
    api = await startApi({ config: { HEARTH_STREAM_KEEPALIVE_S: 1 } })
    ;({ accountId, key } = await api.account())
  })
  after(() => api[Symbol.asyncDispose]())
  beforeEach(async () => {
    const { db } = api.database
    await db
      .updateTable('training_run')
      .set({ status: 'cancelled' })
      .where('status', '=', 'pending')
      .execute()
    runId = await createRun(api, key, { dataset_id: await readyDataset(api, accountId) })
    // Removes the log line saying that no node is available.
    await db.deleteFrom('job_log').where('job_id', '=', runId).execute()
  })

  const address = (query = '') => `${api.baseUrl}${RUNS}/${runId}/stream${query}`
  const follow = (query = '', lastEventId?: string) => followRun(address(query), { key, lastEventId })
  const begin = (attempt = 1) =>
    api.database.db.transaction().execute((trx) => beginAttempt(trx, runId, { attempt, now: new Date() }))
  const end = (ending: RunEnding = { status: 'completed' }, now = new Date()) =>
    api.database.db.transaction().execute((trx) => endRun(trx, runId, ending, now))
  const say = (...messages: string[]) =>
    api.database.db
      .insertInto('job_log')
      .values(
        messages.map((message) => ({
          job_id: runId,
          attempt: 1,
          seq: seq++,
          message,
          created_at: new Date(),
        })),
      )
      .execute()
  const epoch = (number: number, train_loss: number) =>
    api.database.db
      .insertInto('job_epoch')
      .values({ job_id: runId, epoch: number, attempt: 1, train_loss, val_loss: null })
      .onConflict((oc) => oc.columns(['job_id', 'epoch']).doUpdateSet({ train_loss }))
      .execute()
  const messages = (events: readonly StreamEvent[]) =>
    events.filter(({ event }) => event === 'log').map(({ data }) => data.message)
  const LONG_AGO = new Date(Date.now() - 60_000)

  it('delivers past and new entries in order, and ends with the run', async () => {
    await begin()
    await say('first')
    using stream = await follow()
    await until(() => stream.events.length === 3, SOON_MS)
    await epoch(1, 0.5)
    await until(() => stream.events.length === 4, SOON_MS)
    await say('second')
    await end()

    assert.equal(await stream.ended, true)
    assert.deepEqual(
      stream.events.map(({ event, data }) => [
        event,
        data.message ?? data.train_loss ?? data.event_type ?? data.status,
      ]),
      [
        ['event', 'queued'],
        ['status', 'running'],
        ['log', 'first'],
        ['metric', 0.5],
        ['log', 'second'],
        ['status', 'completed'],
        ['event', 'completed'],
        ['done', 'completed'],
      ],
    )
    const done = stream.events.at(-1)?.data
    const read = await api.call('GET', `${RUNS}/${runId}`, { key })
    assert.deepEqual(done, read.body)
    assert.ok(stream.comments.includes('retry: 2000'))
  })

  it('resumes at any position without losses or duplicates', async () => {
    await begin()
    await say('a', 'b')
    await epoch(1, 3)
    await say('c')
    await end({ status: 'failed', errorMessage: 'no luck' }, LONG_AGO)
    using whole = await follow()
    assert.equal(await whole.ended, true)

    for (const [at, { id }] of whole.events.entries()) {
      using header = await follow('', id)
      using query = await follow(`?after=${id}`)
      await Promise.all([header.ended, query.ended])
      const rest = whole.events.slice(at + 1)
      // The last entry is repeated, so a client that resumes there sees that nothing follows.
      const expected = rest.length > 0 ? rest : whole.events.slice(-1)
      assert.deepEqual(header.events, expected)
      assert.deepEqual(query.events, expected)
    }
  })

  it('loses no entries from concurrent writers', async () => {
    await begin()
    using stream = await follow('?types=log')
    const { db } = api.database
    const line = (number: number) => ({
      job_id: runId,
      attempt: 1,
      seq: 500_000 + number,
      message: `${number}`,
      created_at: new Date(),
    })
    await Promise.all(
      Array.from({ length: 12 }, (_, i) =>
        db.transaction().execute(async (trx) => {
          await trx
            .insertInto('job_log')
            .values(line(2 * i))
            .execute()
          await sleep((i % 4) * 15)
          await trx
            .insertInto('job_log')
            .values(line(2 * i + 1))
            .execute()
        }),
      ),
    )
    await end()

    assert.equal(await stream.ended, true)
    assert.deepEqual(
      messages(stream.events)
        .map(Number)
        .toSorted((a, b) => a - b),
      Array.from({ length: 24 }, (_, i) => i),
    )
  })

  it('repeats an epoch only when a later attempt measured it differently', async () => {
    await begin()
    using stream = await follow('?types=metric')
    await epoch(1, 3)
    await until(() => stream.events.length === 1, SOON_MS)
    await epoch(1, 3)
    await epoch(1, 2)
    await end()

    await stream.ended
    assert.deepEqual(
      stream.events.slice(0, -1).map(({ data }) => data.train_loss),
      [3, 2],
    )
  })

  it('ends immediately for a run that ended earlier, and waits briefly for the last lines of a recent one', async () => {
    await end({ status: 'cancelled' }, LONG_AGO)
    const startedAt = performance.now()
    using old = await follow()
    await old.ended
    assert.ok(performance.now() - startedAt < 1_500)
    assert.equal(old.events.at(-1)?.data.status, 'cancelled')
  })

  it('includes lines that arrive after the end', async () => {
    await begin()
    await end()
    using stream = await follow('?types=log')
    await say('late')

    assert.equal(await stream.ended, true)
    assert.deepEqual(messages(stream.events), ['late'])
  })

  it('is limited to its account, and reports invalid parameters', async () => {
    const other = await api.account()
    const path = `${RUNS}/${runId}/stream`
    assert.equal((await api.call('GET', path, { key: other.key })).status, 404)

    const types = await api.call('GET', `${path}?types=log,nonsense`, { key })
    assert.equal(types.status, 422)
    assert.match(
      types.body.error.message,
      /query\.types: contains "nonsense"; the valid types are log, metric/,
    )
    const before = runId
    await end({ status: 'cancelled' }, LONG_AGO)
    using stream = await follow()
    await stream.ended
    const id = stream.events[0]?.id ?? ''
    runId = await createRun(api, key, { dataset_id: await readyDataset(api, accountId) })
    const elsewhere = await api.call('GET', `${RUNS}/${runId}/stream?after=${id}`, { key })
    assert.equal(elsewhere.status, 422)
    assert.match(elsewhere.body.error.message, /query\.after/)
    const header = await api.call('GET', `${RUNS}/${before}/stream`, {
      key,
      headers: { 'last-event-id': 'x' },
    })
    assert.equal(header.status, 422)
    assert.match(header.body.error.message, /header\.Last-Event-ID/)
  })

  it('cleans up when a client disconnects, and is limited per account', async () => {
    const { runFollowers } = api.services
    const streams = await Promise.all(Array.from({ length: 64 }, () => follow()))
    assert.equal(runFollowers.size, 64)
    const more = await api.call('GET', `${RUNS}/${runId}/stream`, { key })
    assert.equal(more.status, 429)
    assert.ok(more.headers['retry-after'])
    for (const stream of streams) stream[Symbol.dispose]()

    await until(() => runFollowers.size === 0, SOON_MS)
  })

  it('sends a keep-alive comment when nothing happens', async () => {
    using stream = await follow()

    await until(() => stream.comments.includes(': keep-alive'), 5 * SOON_MS)
  })

  it('ends without `done` when its gateway stops', async () => {
    await using other = await startApi({ database: api.database })
    using stream = await followRun(`${other.baseUrl}${RUNS}/${runId}/stream`, { key })
    await until(() => stream.events.length > 0, SOON_MS)
    await other[Symbol.asyncDispose]()

    assert.equal(await stream.ended, true)
    assert.equal(
      stream.events.some(({ event }) => event === 'done'),
      false,
    )
  })

  it('keeps up with a thousand lines a second, and buffers nothing for a client that does not read', async () => {
    await begin()
    using stream = await follow('?types=log')
    const lazy = await fetchUnread()
    const SECONDS = 3
    const text = 'x'.repeat(2_000)
    await say(...Array.from({ length: 500 }, () => text))
    globalThis.gc?.()
    const before = process.memoryUsage().external + process.memoryUsage().heapUsed
    for (let tick = 0; tick < SECONDS * 10; tick++) {
      await say(...Array.from({ length: 100 }, (_, i) => `${tick * 100 + i} ${text}`))
      stream.events.splice(0, stream.events.length, ...stream.events.slice(-1))
    }
    await until(
      () =>
        messages(stream.events)
          .at(-1)
          ?.startsWith(`${SECONDS * 1_000 - 1} `) ?? false,
      10 * SOON_MS,
    )
    stream.events.length = 0
    globalThis.gc?.()
    const grown = process.memoryUsage().external + process.memoryUsage().heapUsed - before
    // Six megabytes were written, of which the lazy client has read next to nothing.
    assert.ok(grown < 64 * 1024 * 1024, `${grown} bytes`)
    lazy()
    await until(() => api.services.runFollowers.size === 1, SOON_MS)
  })

  /** Requests the stream without reading it; returns a function that disconnects. */
  async function fetchUnread(): Promise<() => void> {
    const { connect } = await import('node:net')
    const socket = connect(Number(new URL(api.baseUrl).port), '127.0.0.1')
    socket.pause()
    socket.write(`GET ${RUNS}/${runId}/stream HTTP/1.1\r\nhost: x\r\nx-api-key: ${key}\r\n\r\n`)
    await until(() => api.services.runFollowers.size === 2, SOON_MS)
    return () => socket.destroy()
  }

  it('ends with an error within a second when its key is revoked', async () => {
    await begin()
    const { body } = await api.call('POST', '/api/builder/v1/keys', { key, body: { name: 'follower' } })
    using stream = await followRun(address(), { key: body.api_key })
    using other = await follow()
    await until(() => stream.events.length > 0 && other.events.length > 0, SOON_MS)

    assert.equal((await api.call('DELETE', `/api/builder/v1/keys/${body.key_id}`, { key })).status, 204)
    const revokedAt = performance.now()
    assert.equal(await stream.ended, true)

    assert.ok(performance.now() - revokedAt < SOON_MS)
    const { event, data } = stream.events.at(-1)!
    assert.deepEqual([event, data.code], ['error', 'unauthenticated'])
    await say('for others')
    await until(() => messages(other.events).includes('for others'), SOON_MS)
    assert.ok(!messages(stream.events).includes('for others'))
  })

  it('ends when its key is revoked while the run is still being read', async () => {
    await begin()
    const { body } = await api.call('POST', '/api/builder/v1/keys', { key, body: { name: 'early' } })
    const { db } = api.database
    let opening: ReturnType<typeof followRun> | undefined
    await db.transaction().execute(async (trx) => {
      await sql`lock table training_run in access exclusive mode`.execute(trx)
      opening = followRun(address(), { key: body.api_key })
      await until(async () => {
        const { rows } = await sql`select 1 from pg_locks where not granted`.execute(db)
        return rows.length > 0
      }, SOON_MS)
      assert.equal((await api.call('DELETE', `/api/builder/v1/keys/${body.key_id}`, { key })).status, 204)
      // By then every gateway has noticed, even one that missed the notification.
      await sleep(2_000)
    })
    const releasedAt = performance.now()

    using stream = await opening!
    assert.equal(await stream.ended, true)

    assert.ok(performance.now() - releasedAt < SOON_MS)
    const { event, data } = stream.events.at(-1)!
    assert.deepEqual([event, data.code], ['error', 'unauthenticated'])
  })
})

describe("paging forward through a training run's log", () => {
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())

  it('resumes after the lines already read, and includes late ones', async () => {
    const { accountId, key } = await api.account()
    const runId = await createRun(api, key, { dataset_id: await readyDataset(api, accountId) })
    const path = `${RUNS}/${runId}/logs`
    const say = (seq: number, message: string) =>
      api.database.db
        .insertInto('job_log')
        .values({ job_id: runId, attempt: 1, seq, message, created_at: new Date() })
        .execute()
    const read = async (query: string) => (await api.call('GET', `${path}${query}`, { key })).body
    const texts = (body: { logs: { message: string }[] }) => body.logs.map(({ message }) => message)
    const empty = await read('')
    await say(5, 'e')
    await say(6, 'f')
    const newest = await read(`?after=${empty.after}&limit=1`)
    assert.deepEqual(texts(newest), ['e'])
    assert.equal(newest.next_cursor, null)
    await say(2, 'b')

    assert.deepEqual(texts(await read(`?after=${newest.after}`)), ['f', 'b'])
    const all = await read('')
    const nothing = await read(`?after=${all.after}`)
    assert.deepEqual(nothing.logs, [])
    assert.equal(nothing.after, all.after)
    const back = await read('?limit=1')
    assert.equal((await read(`?cursor=${back.next_cursor}`)).after, null)
    const both = await api.call('GET', `${path}?after=${all.after}&cursor=${back.next_cursor}`, { key })
    assert.equal(both.status, 422)
    assert.match(both.body.error.message, /query\.after: cannot be combined with cursor/)
    const backwards = await api.call('GET', `${path}?after=${back.next_cursor}`, { key })
    assert.equal(backwards.status, 422)
  })
})
