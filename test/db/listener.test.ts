import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { sql } from 'kysely'
import { Listener } from '../../db/listener.ts'
import { eventually } from '../support/assertions/until.ts'
import { startDatabase, type TestDatabase } from '../support/servers/database.ts'

const CHANNEL = 'listener_test'

describe('listener', () => {
  let database: TestDatabase
  before(async () => {
    database = await startDatabase()
  })
  after(() => database?.[Symbol.asyncDispose]())

  const listening = (url = database.url, answerMs = 5_000) => {
    const calls = { heard: [] as string[], gaps: 0, errors: 0 }
    const listener = new Listener(url, {
      channel: CHANNEL,
      onNotify: (payload) => calls.heard.push(payload),
      onGap: () => calls.gaps++,
      onError: () => calls.errors++,
      answerMs,
    })
    return { calls, listener }
  }
  const notify = (payload: string) => sql`select pg_notify(${CHANNEL}, ${payload})`.execute(database.db)
  const connections = async () => {
    const { rows } = await sql<{ pid: number }>`
      select pid from pg_stat_activity where datname = current_database() and query = ${`listen ${CHANNEL}`}`.execute(
      database.db,
    )
    return rows
  }

  it('reports a gap for notifications sent before it was listening, then receives the rest', async () => {
    const { calls, listener } = listening()
    await using _ = listener

    await listener.start()
    await notify('one')
    await eventually('the notification', () => calls.heard[0])

    assert.deepEqual(calls, { heard: ['one'], gaps: 1, errors: 0 })
  })

  it('reconnects when its connection breaks, and reports a gap for the notifications it missed', async () => {
    const { calls, listener } = listening()
    await using _ = listener
    await listener.start()

    await sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and query = ${`listen ${CHANNEL}`}`.execute(database.db)
    await notify('missed')
    await eventually('the second gap', () => calls.gaps === 2 || undefined)
    await notify('heard')

    assert.equal(await eventually('the notification', () => calls.heard.at(-1)), 'heard')
    assert.equal((await connections()).length, 1)
  })

  it('keeps trying while the database is unreachable, without blocking startup', async () => {
    const { calls, listener } = listening('postgres://nobody@127.0.0.1:1/none')

    await listener.start()
    await eventually('another try', () => calls.errors > 1 || undefined)
    await listener[Symbol.asyncDispose]()

    assert.equal(calls.gaps, 0)
  })

  it('leaves no connection behind', async () => {
    const { listener } = listening()
    await listener.start()

    await listener[Symbol.asyncDispose]()

    await eventually('the end of its connection', async () => (await connections()).length === 0 || undefined)
  })

  /**
   * Starts a proxy to the database. It stops forwarding, with both ends open, once a message from this side contains
   * `mark`.
   */
  async function wayUntil(mark: string) {
    const { port } = new URL(database.url)
    const sockets: Socket[] = []
    const proxy = createServer({ allowHalfOpen: true }, (socket) => {
      const upstream = connect(Number(port), '127.0.0.1')
      upstream.pipe(socket).on('error', () => {})
      socket.on('data', (data) => {
        if (!data.includes(mark)) upstream.write(data)
      })
      sockets.push(upstream, socket)
    }).listen(0, '127.0.0.1')
    await once(proxy, 'listening')
    const way = new URL(database.url)
    way.host = `127.0.0.1:${(proxy.address() as AddressInfo).port}`
    const close = () => {
      for (const socket of sockets) socket.destroy()
      proxy.close()
    }
    return { url: way.href, sockets, [Symbol.dispose]: close }
  }

  it('does not block startup when the server accepts the connection and then hangs', async () => {
    using way = await wayUntil('listen')
    const { calls, listener } = listening(way.url, 200)
    await using _ = listener

    await listener.start()

    assert.deepEqual(calls, { heard: [], gaps: 0, errors: 1 })
  })

  it('does not wait for an unresponsive server when it is closed', async () => {
    using way = await wayUntil('nothing of this')
    const { listener } = listening(way.url)
    await listener.start()
    for (const socket of way.sockets) socket.unpipe().pause()

    await listener[Symbol.asyncDispose]()
  })
})
