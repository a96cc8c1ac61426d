import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import Type from 'typebox'
import type { Family } from '../../../api/http/family.ts'
import { route } from '../../../api/http/route.ts'
import { connectTo, startApi, type TestApi } from '../../support/servers/api.ts'

const IDLE_TIMEOUT_MS = 300

const wait = route({
  operationId: 'wait',
  summary: 'Wait for a while',
  method: 'GET',
  path: '/wait/{ms}',
  auth: 'none',
  params: Type.Object({ ms: Type.Integer() }),
  success: { status: 204 },
  handler: ({ params }) => sleep(params.ms),
})
const families: Family[] = [{ name: 'builder', prefix: '/api/builder/v1', errors: 'builder', routes: [wait] }]

describe('idle connections', () => {
  let api: TestApi
  before(async () => {
    api = await startApi({ families, idleLimits: { idleMs: IDLE_TIMEOUT_MS, sweepMs: 20 } })
  })
  after(() => api[Symbol.asyncDispose]())

  async function open(): Promise<Socket> {
    const socket = connectTo(api.baseUrl)
    await once(socket, 'connect')
    return socket
  }

  /** Sends a request whose response takes `ms`, and waits for it. */
  async function ask(socket: Socket, ms: number): Promise<void> {
    socket.write(`GET /api/builder/v1/wait/${ms} HTTP/1.1\r\nHost: x\r\n\r\n`)
    const [answer] = (await once(socket, 'data')) as [Buffer]
    assert.match(answer.toString(), /^HTTP\/1\.1 204/)
  }

  it('are closed after the idle timeout', async () => {
    await using socket = await open()
    await ask(socket, 0)
    const began = performance.now()
    await once(socket, 'close')
    assert.ok(performance.now() - began > IDLE_TIMEOUT_MS / 2)
  })

  it('stay open during a slow response and while requests keep coming', async () => {
    await using socket = await open()
    await ask(socket, 3 * IDLE_TIMEOUT_MS)
    for (let n = 0; n < 6; n++) {
      await sleep(IDLE_TIMEOUT_MS / 2)
      await ask(socket, 0)
    }
    await once(socket, 'close')
  })

  it("are left to the server's own limit before their first request", async () => {
    await using socket = await open()
    await sleep(2 * IDLE_TIMEOUT_MS)
    await ask(socket, 0)
  })
})
