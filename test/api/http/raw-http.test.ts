import assert from 'node:assert/strict'
import { connectTo, startApi, type TestApi } from '../../support/servers/api.ts'

const HEALTH = '/api/builder/v1/health'

interface RawAnswer {
  status: number
  head: string
  body: { error?: { code: string; message: string; request_id: string } }
}

describe('raw HTTP requests', () => {
  let api: TestApi
  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())

  /** Sends one request, byte for byte, and returns its response. */
  const send = (lines: readonly string[], body = ''): Promise<RawAnswer> =>
    new Promise((resolve, reject) => {
      const socket = connectTo(api.baseUrl)
      let text = ''
      socket
        .on('data', (data) => {
          text += String(data)
          const [head = '', rest = ''] = text.replace(/^HTTP\/1\.1 100 [^]*?\r\n\r\n/, '').split('\r\n\r\n')
          const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? Number.NaN)
          if (Buffer.byteLength(rest) < length || Number.isNaN(length)) return
          socket.destroy()
          const body = JSON.parse(rest || '{}') as RawAnswer['body']
          resolve({ status: Number(head.slice(9, 12)), head, body })
        })
        .on('error', reject)
        .on('close', () => reject(new Error(`closed after ${JSON.stringify(text)}`)))
      socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`)
    })

  it('are served when they offer an upgrade, for example to HTTP/2', async () => {
    const offers = [
      ['connection: Upgrade, HTTP2-Settings', 'upgrade: h2c', 'http2-settings: AAMAAABkAAQAoAAAAAIAAAAA'],
      ['connection: upgrade', 'upgrade: websocket'],
    ]
    for (const offer of offers) {
      assert.equal((await send([`GET ${HEALTH} HTTP/1.1`, 'host: x', ...offer])).status, 200, offer[1])
    }
  })

  it('are served when they use an absolute URL, as for a proxy', async () => {
    assert.equal((await send([`GET ${api.baseUrl}${HEALTH} HTTP/1.1`, 'host: x'])).status, 200)
    assert.equal((await send(['GET http://x HTTP/1.1', 'host: x'])).status, 302)
  })

  it('get the keep-alive timeout in the response', async () => {
    const { head } = await send([`GET ${HEALTH} HTTP/1.1`, 'host: x'])
    assert.match(head, /\r\nConnection: keep-alive(?:\r\n|$)/)
    assert.match(head, /\r\nkeep-alive: timeout=65\r\n/)
  })

  it('are rejected without Host in our own error format', async () => {
    const { status, body } = await send([`GET ${HEALTH} HTTP/1.1`])

    assert.equal(status, 400)
    assert.equal(body.error?.code, 'bad_request')
    assert.match(body.error?.message ?? '', /Host/)
    assert.equal((await send([`GET ${HEALTH} HTTP/1.0`])).status, 200)
  })

  it('are served whatever their Expect header says', async () => {
    const head = ['POST /api/builder/v1/datasets HTTP/1.1', 'host: x', 'content-length: 2']
    for (const expected of ['100-continue', 'the-unexpected']) {
      const { status, body } = await send([...head, `expect: ${expected}`], '{}')
      assert.deepEqual([status, body.error?.code], [401, 'unauthenticated'])
    }
  })

  it('get a short 404 message for an unknown path of any length', async () => {
    const { status, body } = await send([`GET /${'x'.repeat(10_000)} HTTP/1.1`, 'host: x'])

    assert.equal(status, 404)
    assert.ok((body.error?.message.length ?? 0) < 300)
  })
})
