import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import Type from 'typebox'
import type { Family } from '../../../api/http/family.ts'
import { HANDLED, reply } from '../../../api/http/reply.ts'
import { route } from '../../../api/http/route.ts'
import { ApiError } from '../../../domain/errors.ts'
import { SOON_MS, until } from '../../support/assertions/until.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'

const seen = { aborted: 0, destroyed: 0, after: 0 }

const events = route({
  operationId: 'events',
  summary: 'Stream by hand',
  method: 'GET',
  path: '/events/{how}',
  auth: 'api-key',
  params: Type.Object({ how: Type.String() }),
  success: { status: 200, contentType: 'text/event-stream' },
  errors: ['no_capacity'],

  async handler({ params, res, signal }) {
    if (params.how === 'wait') {
      await once(signal, 'abort')
      seen.aborted += 1
      return HANDLED
    }
    res.setHeader('content-disposition', 'attachment')
    if (params.how === 'early') throw new ApiError('no_capacity', 'nobody is there')
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write('data: 1\n\n')
    if (params.how === 'late') throw new Error('broken')
    setTimeout(() => res.end('data: [DONE]\n\n'), 20)
    return HANDLED
  },
})

const download = route({
  operationId: 'download',
  summary: 'Stream a file',
  method: 'GET',
  path: '/files/{name}',
  auth: 'none',
  params: Type.Object({ name: Type.String() }),
  success: { status: 200, contentType: 'text/csv' },

  handler({ params }) {
    async function* rows(): AsyncGenerator<string> {
      try {
        for (let i = 0; params.name === 'endless' || i < 3; i++) yield `${i},${'x'.repeat(10_000)}\n`
      } finally {
        seen.destroyed += 1
      }
    }
    return reply(200, Readable.from(rows()), { 'Content-Type': 'text/csv' })
  },
})

const later = route({
  operationId: 'later',
  summary: 'Do something after the answer is safe',
  method: 'POST',
  path: '/later',
  auth: 'api-key',
  idempotent: true,
  success: { status: 204 },
  async handler(request) {
    request.afterCommit(() => (seen.after += 1))
  },
})

const families: Family[] = [
  { name: 'builder', prefix: '/api/builder/v1', errors: 'builder', routes: [events, download, later] },
]

describe('streamed responses', () => {
  let api: TestApi
  let key: string
  before(async () => {
    api = await startApi({ families })
    key = (await api.account()).key
  })
  after(() => api[Symbol.asyncDispose]())
  beforeEach(() => Object.assign(seen, { aborted: 0, destroyed: 0, after: 0 }))

  const get = (path: string) => api.call('GET', `/api/builder/v1${path}`, { key })

  /** Sends a request, reads a little, and disconnects. */
  async function leave(path: string): Promise<void> {
    const socket = connect(Number(new URL(api.baseUrl).port), '127.0.0.1')
    socket.write(`GET /api/builder/v1${path} HTTP/1.1\r\nhost: x\r\nx-api-key: ${key}\r\n\r\n`)
    await Promise.race([once(socket, 'data'), sleep(100)])
    socket.destroy()
  }

  it('carry the headers of every response', async () => {
    const { status, headers, text } = await get('/events/well')

    assert.equal(status, 200)
    assert.equal(text, 'data: 1\n\ndata: [DONE]\n\n')
    assert.ok(headers['x-request-id'])
    assert.ok(headers['ratelimit-remaining'])
  })

  it('can still fail with an error body before their head is sent', async () => {
    const { status, headers, body } = await get('/events/early')

    assert.equal(status, 503)
    assert.equal(body.error.code, 'no_capacity')
    assert.equal(body.error.request_id, headers['x-request-id'])
    assert.equal(headers['content-disposition'], undefined)
  })

  it('are cut off when they fail later', async () => {
    await assert.rejects(get('/events/late'))
  })

  it("abort the handler's signal within a second when the client disconnects", async () => {
    await leave('/events/wait')

    await until(() => seen.aborted === 1, SOON_MS)
  })

  it('pass bytes through, and destroy their source when the client disconnects', async () => {
    const whole = await api.call('GET', '/api/builder/v1/files/short')
    await leave('/files/endless')

    assert.equal(whole.headers['content-type'], 'text/csv')
    assert.equal(whole.text.split('\n').length, 4)
    await until(() => seen.destroyed === 2, SOON_MS)
  })

  it('run their after-commit step once for a repeated request', async () => {
    const headers = { 'idempotency-key': crypto.randomUUID() }
    const call = () => api.call('POST', '/api/builder/v1/later', { key, headers })

    assert.equal((await call()).status, 204)
    assert.equal((await call()).headers['idempotency-replayed'], 'true')
    assert.equal(seen.after, 1)
  })
})
