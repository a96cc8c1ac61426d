import assert from 'node:assert/strict'
import { sql } from 'kysely'
import { Journal } from '../../../../api/gateway/journal/journal.ts'
import { PreparedPool } from '../../../../db/prepared-pool.ts'
import { until } from '../../../support/assertions/until.ts'
import type { AnyBody, Answer } from '../../../support/servers/api.ts'
import { ChatApi } from '../../../support/servers/chat-api.ts'

/** Rows for running work that the database accepts only after the clients got an error. */
describe('rows that are written late', () => {
  let chat: ChatApi
  const stack = new AsyncDisposableStack()
  before(async () => {
    chat = stack.use(await ChatApi.start())
    const { services, database } = chat.api
    const pool = stack.use(new PreparedPool(database.url, { max: 2 }))
    const journal = stack.use(new Journal(pool, services.log, { patienceMs: 300 }))
    Object.assign(services, { journal })
  })
  after(() => stack.disposeAsync())

  /** Returns the response to a request while no task can be written, and the request's task once it can be. */
  async function whileLocked(ask: () => Promise<Answer<AnyBody>>) {
    const { db } = chat.api.database
    const answer = await db.transaction().execute(async (trx) => {
      await sql`lock table task in share row exclusive mode`.execute(trx)
      return ask()
    })
    assert.equal(answer.status, 503, answer.text)
    const [id] = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/.exec(answer.text) ?? []
    assert.ok(id, 'the response contains no task id')
    const task = () => db.selectFrom('task').selectAll().where('id', '=', id).executeTakeFirst()
    await until(async () => (await task()) !== undefined)
    return { id, task }
  }

  it('end as failed and are refunded when they belong to streams', async () => {
    const endpoint = await chat.warm({ price_micro: 700 })

    const { id, task } = await whileLocked(() => chat.chat(endpoint.id, { stream: true }))

    await until(async () => (await task())?.status === 'failed')
    const { db } = chat.api.database
    const booked = await db.selectFrom('ledger_transfer').select('kind').where('task_id', '=', id).execute()
    assert.deepEqual(booked.map(({ kind }) => kind).toSorted(), ['hold', 'refund'])
  })

  it('are handed to a workflow when their requests had become `running` tasks', async () => {
    const endpoint = await chat.warm()
    const input = { messages: [{ role: 'user', content: 'hi' }], fake: { delay_ms: 5_000 } }

    const { id, task } = await whileLocked(() =>
      chat.api.call('POST', `/api/builder/v1/endpoints/${endpoint.id}/infer`, {
        key: chat.caller.key,
        body: { input, sync_timeout_s: 1 },
      }),
    )

    await until(async () => (await task())?.status === 'queued')
    const { rows } = await sql`select 1 from workflow_start where workflow_id = ${`task/${id}`}`.execute(
      chat.api.database.db,
    )
    assert.equal(rows.length, 1)
  })
})
