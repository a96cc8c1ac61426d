import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import Type from 'typebox'
import type { Family } from '../../../api/http/family.ts'
import { route } from '../../../api/http/route.ts'
import { connectTo, startApi, type TestApi } from '../../support/servers/api.ts'

const IDLE_TIMEOUT_MS = 400

const ponder = route({
  operationId: 'ponder',
  summary: 'Think for a while',
  method: 'POST',
  path: '/ponder',
  auth: 'none',
  body: Type.Object({}),
  maxBodyBytes: 1_000,
  success: { status: 204 },
  handler: () => sleep(2 * IDLE_TIMEOUT_MS),
})
const PONDER = ['POST /api/builder/v1/ponder HTTP/1.1', 'host: x', 'content-type: application/json']
const look = route({
  operationId: 'look',
  summary: 'Look for a while',
  method: 'GET',
  path: '/look',
  auth: 'none',
  success: { status: 204 },
  handler: () => sleep(2 * IDLE_TIMEOUT_MS),
})
const families: Family[] = [
  { name: 'builder', prefix: '/api/builder/v1', errors: 'builder', routes: [ponder, look] },
]

describe('a client that is still sending its body', () => {
  let api: TestApi
  before(async () => {
    api = await startApi({ families, idleLimits: { bodyIdleMs: IDLE_TIMEOUT_MS, sweepMs: 20 } })
  })
  after(() => api[Symbol.asyncDispose]())

  const open = (length: number): { socket: Socket; answer: Promise<string> } => {
    const socket = connectTo(api.baseUrl)
    socket.write(`${[...PONDER, `content-length: ${length}`].join('\r\n')}\r\n\r\n`)
    const answer = new Promise<string>((resolve) => {
      let text = ''
      socket
        .on('data', (chunk) => {
          text += String(chunk)
          if (text.includes('\r\n\r\n')) socket.end()
        })
        .on('error', () => {})
        .on('close', () => resolve(text))
    })
    return { socket, answer }
  }

  it('gets 408 and is disconnected when it stops sending', async () => {
    const { socket, answer } = open(10)
    socket.write('{')

    const text = await answer
    assert.match(text, /^HTTP\/1\.1 408 /)
    assert.match(text, /"request_timeout"/)
  })

  it('may send slowly, and the handler may then take longer', async () => {
    const { socket, answer } = open(6)
    for (const byte of '{    }') {
      await sleep(IDLE_TIMEOUT_MS / 4)
      socket.write(byte)
    }

    assert.match(await answer, /^HTTP\/1\.1 204/)
  })

  it('may follow a rejected request with a slower one', async () => {
    const socket = connectTo(api.baseUrl)
    socket.write(
      `${[...PONDER, 'transfer-encoding: chunked'].join('\r\n')}\r\n\r\n7d0\r\n${' '.repeat(2_000)}\r\n`,
    )
    const [refusal] = (await once(socket, 'data')) as [Buffer]
    assert.match(String(refusal), /^HTTP\/1\.1 413/)

    socket.write('0\r\n\r\nGET /api/builder/v1/look HTTP/1.1\r\nhost: x\r\n\r\n')
    const [answer] = (await once(socket, 'data')) as [Buffer]
    assert.match(String(answer), /^HTTP\/1\.1 204/)
    socket.destroy()
  })
})
