import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { sql } from 'kysely'
import { MAX_STREAMS } from '../../../api/http/connections/stream-slots.ts'
import { connectTo, OPERATIONS_KEY, startApi, type TestApi } from '../../support/servers/api.ts'

const ME = '/api/builder/v1/me'

/** Sends a request and returns the start of the response; the connection stays open unless the gateway closes it. */
async function get(socket: Socket, path: string, key: string): Promise<string> {
  socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\nx-api-key: ${key}\r\n\r\n`)
  const [data] = (await once(socket, 'data')) as [Buffer]
  return data.toString()
}

const statusOf = (answer: string): number => Number(answer.slice(9, 12))

describe('account connections', () => {
  const open: Socket[] = []
  let api: TestApi
  before(async () => {
    api = await startApi({
      env: {
        HEARTH_MAX_CONNECTIONS: '100',
        HEARTH_ADDRESS_CONNECTIONS: '1000',
        HEARTH_RATE_LIMIT: '0',
      },
    })
  })
  afterEach(async () => {
    for (const socket of open.splice(0)) socket.destroy()
    while ((await api.connections()) > 4) await new Promise((resolve) => setTimeout(resolve, 20))
  })
  after(() => api?.[Symbol.asyncDispose]())

  const connect = (): Socket => {
    const socket = connectTo(api.baseUrl).on('error', () => {})
    open.push(socket)
    return socket
  }

  it('are limited per account: one connection too many gets 429 and is closed', async () => {
    const [loud, quiet] = [await api.account(), await api.account()]
    for (let nth = 0; nth < 16; nth++) assert.equal(statusOf(await get(connect(), ME, loud.key)), 200)
    const refused = connect()
    const closed = once(refused, 'close')
    const answer = await get(refused, ME, loud.key)

    assert.equal(statusOf(answer), 429)
    assert.match(answer, /retry-after: 5/i)
    assert.match(answer, /an account or node may have at most 16 connections/)
    await closed
    // The account's other connections still work.
    assert.equal(statusOf(await get(open[0] as Socket, ME, loud.key)), 200)
    assert.equal(statusOf(await get(connect(), ME, quiet.key)), 200)
    open.shift()?.destroy()
    await new Promise((resolve) => setTimeout(resolve, 100))
    assert.equal(statusOf(await get(connect(), ME, loud.key)), 200)
  })

  it('leave a reserve for operators that connections without a credential cannot take', async () => {
    const accounts = await Promise.all(Array.from({ length: 7 }, () => api.account()))
    const statuses: number[] = []
    for (const { key } of accounts)
      for (let nth = 0; nth < 16; nth++) statuses.push(statusOf(await get(connect(), ME, key)))
    assert.ok(statuses.filter((status) => status === 200).length >= 85)
    assert.ok(statuses.includes(429))
    for (let nth = 0; nth < 40; nth++) connect()
    const path = '/api/v1/admin/accounts'
    for (let nth = 0; nth < 3; nth++) assert.equal(statusOf(await get(connect(), path, OPERATIONS_KEY)), 200)
  })

  it('carry at most 64 streams, and a refused stream closes its connection', async () => {
    const { key } = await api.account()
    const slots = Array.from({ length: MAX_STREAMS - 1 }, () =>
      api.services.streamSlots.take('somebody else'),
    )
    assert.doesNotThrow(() => api.services.streamSlots.take('somebody else'))
    assert.throws(() => api.services.streamSlots.take('somebody else'), /at most 64 streams/)
    for (const slot of slots) slot[Symbol.dispose]()
    const path = '/api/builder/v1/events/stream'
    for (let nth = 0; nth < 14; nth++) assert.equal(statusOf(await get(connect(), path, key)), 200)
  })
})

describe('database connections', () => {
  it("are shared, so that one account's waiting requests leave some for other accounts", async () => {
    await using api = await startApi({ env: { HEARTH_RATE_LIMIT: '0' } })
    const [loud, quiet] = [await api.account(), await api.account()]
    const { db } = api.database
    const held = Promise.withResolvers<void>()
    const locked = Promise.withResolvers<void>()
    const lock = db.transaction().execute(async (trx) => {
      await sql`select from account where id = ${loud.accountId}::uuid for update`.execute(trx)
      locked.resolve()
      await held.promise
    })
    await locked.promise
    const keys = Array.from({ length: 50 }, () =>
      api.call('POST', '/api/builder/v1/keys', {
        key: loud.key,
        body: { name: 'k' },
        headers: { 'idempotency-key': randomUUID() },
      }),
    )
    await new Promise((resolve) => setTimeout(resolve, 300))
    const { status } = await api.call('GET', '/api/builder/v1/datasets', { key: quiet.key })
    assert.equal(status, 200)
    const { rows } = await sql<{ n: number }>`select count(*)::int as n from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`.execute(db)
    assert.ok((rows[0]?.n ?? 0) <= 5, `${rows[0]?.n} connections are waiting for the account's lock`)
    held.resolve()
    await lock
    for (const { status, text } of await Promise.all(keys)) assert.equal(status, 201, text)
  })
})
