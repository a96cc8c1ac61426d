import assert from 'node:assert/strict'
import { type Fetch, hearth, type RunEvent } from '../../client/index.ts'
import { endRun } from '../../db/repositories/training/endings.ts'
import { beginAttempt } from '../../db/repositories/training/jobs.ts'
import { readyDataset } from '../support/builders/training.ts'
import { startApi, type TestApi } from '../support/servers/api.ts'

describe('client runs', () => {
  let api: TestApi
  let key: string
  let accountId: string
  let runId: string
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())
  beforeEach(async () => {
    ;({ key, accountId } = await api.account())
    const { job_id, status } = await client().runs.create({
      job_name: 'fit',
      model: 'tabular-regression',
      dataset_id: await readyDataset(api, accountId),
    })
    assert.equal(status, 'pending')
    runId = job_id
  })

  const client = (fetchIt?: Fetch) =>
    hearth({ baseUrl: api.baseUrl, apiKey: key, ...(fetchIt && { fetch: fetchIt }) })
  const begin = () =>
    api.database.db.transaction().execute((trx) => beginAttempt(trx, runId, { attempt: 1, now: new Date() }))
  const end = (now = new Date()) =>
    api.database.db.transaction().execute((trx) => endRun(trx, runId, { status: 'completed' }, now))
  const say = (seq: number, message: string) =>
    api.database.db
      .insertInto('job_log')
      .values({ job_id: runId, attempt: 1, seq, message, created_at: new Date() })
      .execute()

  it('are waited for, with a callback for each change', async () => {
    const h = client()
    const seen: string[] = []
    const run = await h.runs.wait(runId, {
      intervalMs: 20,
      async onUpdate({ status }) {
        seen.push(status)
        if (status === 'pending') await begin()
        if (status === 'running') await end()
      },
    })

    assert.equal(run.status, 'completed')
    assert.deepEqual(seen, ['pending', 'running', 'completed'])
    assert.deepEqual(
      (await h.runs.list({ status: 'completed' }).all()).map(({ job_id }) => job_id),
      [runId],
    )
    const events = await h.runs.events(runId)
    assert.ok(events.events.some(({ event_type }) => event_type === 'completed'))
    assert.equal((await h.runs.metrics(runId)).run_id, runId)
  })

  it('are no longer waited for after the signal is aborted', async () => {
    const signal = AbortSignal.timeout(100)

    await assert.rejects(client().runs.wait(runId, { signal, intervalMs: 20 }), { name: 'TimeoutError' })
    assert.equal((await client().runs.cancel(runId)).status, 'cancelled')
    await client().runs.delete(runId)
    await assert.rejects(client().runs.get(runId), { code: 'not_found' })
  })

  it('are streamed to the end across lost connections', async () => {
    await begin()
    await say(1, 'first')
    const queries: string[] = []
    let connection = new AbortController()
    const h = client((url, init) => {
      queries.push(new URL(url).search)
      connection = new AbortController()
      return fetch(url, { ...init, signal: connection.signal })
    })
    const events: RunEvent[] = []
    for await (const event of h.runs.stream(runId, { types: ['log'] })) {
      events.push(event)
      if (event.event !== 'log') continue
      if (event.data.message === 'first') {
        await say(2, 'second')
        connection.abort()
      }
      if (event.data.message === 'second') await end(new Date(Date.now() - 60_000))
    }

    const messages = events.flatMap(({ event, data }) => (event === 'log' ? [data.message] : []))
    assert.deepEqual(messages.slice(-2), ['first', 'second'])
    const done = events.at(-1)
    assert.equal(done?.event === 'done' && done.data.status, 'completed')
    assert.equal(queries.length, 2)
    assert.match(queries[1] ?? '', /^\?after=.+&types=log$/)
  })
})
