import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { IdleConnections } from '../../api/http/idle-connections.ts'

const IDLE_MS = 300

describe('connections on which nothing is asked any more', () => {
  let server: Server

  before(async () => {
    server = createServer((req, res) => {
      connections.note(req.socket, res)
      setTimeout(() => res.end('done'), Number(req.url?.slice(1)))
    })
    const connections = new IdleConnections(server, { idleMs: IDLE_MS, sweepMs: 20 })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
  })
  after(() => {
    server.close()
    server.closeAllConnections()
  })

  async function open(): Promise<Socket> {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    await once(socket, 'connect')
    return socket
  }

  /** Asks for an answer that takes `ms`, and waits for it. */
  async function ask(socket: Socket, ms: number): Promise<void> {
    socket.write(`GET /${ms} HTTP/1.1\r\nHost: x\r\n\r\n`)
    const [answer] = (await once(socket, 'data')) as [Buffer]
    assert.match(answer.toString(), /done/)
  }

  it('are closed after a while', async () => {
    await using socket = await open()
    await ask(socket, 0)
    const began = performance.now()
    await once(socket, 'close')
    assert.ok(performance.now() - began > IDLE_MS / 2)
  })

  it('are kept while an answer takes its time, and while more is asked', async () => {
    await using socket = await open()
    await ask(socket, 3 * IDLE_MS)
    for (let n = 0; n < 6; n++) {
      await sleep(IDLE_MS / 2)
      await ask(socket, 0)
    }
    await once(socket, 'close')
  })

  it('are left to the limit of the server before their first request', async () => {
    await using socket = await open()
    await sleep(2 * IDLE_MS)
    await ask(socket, 0)
  })
})
