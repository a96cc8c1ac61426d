import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import Type from 'typebox'
import type { Family } from '../../../api/http/family.ts'
import { route } from '../../../api/http/route.ts'
import { connectTo, startApi, type TestApi } from '../../support/servers/api.ts'

const say = route({
  operationId: 'say',
  summary: 'Say it again',
  method: 'POST',
  path: '/say',
  auth: 'none',
  body: Type.Object({ word: Type.String({ minLength: 1 }), free: Type.Optional(Type.Unknown()) }),
  success: { status: 200, schema: Type.Object({ said: Type.String() }) },
  handler: ({ body }) => ({ said: body.word }),
})

const small = route({
  operationId: 'small',
  summary: 'Take little',
  method: 'PUT',
  path: '/small',
  auth: 'none',
  maxBodyBytes: 100,
  body: Type.Object({}),
  success: { status: 204 },
  handler: () => {},
})

const closed = route({
  ...small,
  operationId: 'closed',
  path: '/closed',
  maxBodyBytes: 100_000,
  body: Type.Object({}, { additionalProperties: false }),
})

const families: Family[] = [
  { name: 'builder', prefix: '/api/builder/v1', errors: 'builder', routes: [say, small, closed] },
]

describe('JSON bodies', () => {
  let api: TestApi
  before(async () => {
    api = await startApi({ families })
  })
  after(() => api[Symbol.asyncDispose]())

  const send = (raw: string | Uint8Array, headers: Record<string, string> = {}) =>
    api.call('POST', '/api/builder/v1/say', {
      raw,
      headers: { 'content-type': 'application/json', ...headers },
    })

  it('get 400 when they are not valid JSON', async () => {
    for (const raw of ['{"word":', '{"word": "a"} x', "{'word': 'a'}", 'NaN', ' ']) {
      const { status, body } = await send(raw)

      assert.equal(status, 400, raw)
      assert.equal(body.error.code, 'bad_request')
    }
  })

  it('get 400 when they are not UTF-8', async () => {
    const { status } = await send(Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d]))

    assert.equal(status, 400)
  })

  it('get 415 for any other content type, charset or encoding', async () => {
    const types = [
      'text/plain',
      'application/x-www-form-urlencoded',
      'application/json; charset=latin1',
      'text/json',
    ]
    for (const type of types)
      assert.equal((await send('{"word":"a"}', { 'content-type': type })).status, 415, type)
    assert.equal((await send('x', { 'content-encoding': 'gzip' })).status, 415)
    assert.equal(
      (await send('{"word":"a"}', { 'content-type': 'application/json; charset=UTF-8' })).status,
      200,
    )
  })

  it('are rejected when nested too deeply or with members called __proto__', async () => {
    const deep = '['.repeat(100_000) + ']'.repeat(100_000)
    assert.equal((await send(`{"word":"a","free":${deep}}`)).status, 400)
    assert.equal((await send('{"word":"a","free":{"__proto__":{"admin":true}}}')).status, 400)
    assert.equal((await send('{"word":"a","free":{"\\u005f_proto__":1}}')).status, 400)
    assert.equal(({} as { admin?: boolean }).admin, undefined)
  })

  it('are rejected with the path of a number that is too large', async () => {
    for (const number of ['1e999', '-1e999']) {
      const { status, body } = await send(`{"word":"a","free":{"rows":[1,{"x":${number}}]}}`)

      assert.equal(status, 422)
      assert.deepEqual(body.detail[0].loc, ['body', 'free', 'rows', 1, 'x'])
      assert.match(body.detail[0].msg, /too large for a 64-bit number/)
    }
    assert.equal((await send('{"word":"a","free":[1.7e308,1e-999]}')).status, 200)
  })

  it('may contain NUL and lone surrogates in text', async () => {
    const { status, body } = await send('{"word":"a\\u0000b\\ud800"}')

    assert.equal(status, 200)
    assert.equal(body.said.slice(0, 3), 'a\u0000b')
  })

  it('quickly get a single validation error when they are large, with long names truncated', async () => {
    const startedAt = performance.now()
    const many = await send(`{"word":[${'0,'.repeat(400_000)}0]}`)
    const long = await api.call('PUT', '/api/builder/v1/closed', { body: { ['x'.repeat(50_000)]: 1 } })

    assert.ok(performance.now() - startedAt < 10_000)
    assert.deepEqual([many.status, long.status], [422, 422])
    assert.equal(many.body.detail.length, 1)
    assert.ok(long.text.length < 3_000)
  })

  it('get 413 over the limit, with or without a declared length, and leave the connection usable', async () => {
    const big = 'x'.repeat(5_000_000)
    const declared = await api.call('PUT', '/api/builder/v1/small', {
      raw: big,
      headers: { 'content-type': 'application/json' },
    })
    const chunked = await api.call('PUT', '/api/builder/v1/small', {
      raw: Readable.from(Array.from({ length: 100 }, () => Buffer.alloc(64 * 1024, 120))),
      headers: { 'content-type': 'application/json' },
    })

    assert.deepEqual([declared.status, chunked.status], [413, 413])
    assert.equal(declared.body.error.details.max_bytes, 100)
  })

  it('get 413 before the body is sent when the client waits for 100-continue', async () => {
    const socket = connectTo(api.baseUrl)
    socket.write(
      'PUT /api/builder/v1/small HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n' +
        'content-length: 1000\r\nexpect: 100-continue\r\n\r\n',
    )
    const [answer] = (await once(socket, 'data')) as [Buffer]
    socket.destroy()

    assert.match(answer.toString(), /^HTTP\/1\.1 413 /)
  })

  it('do no harm when the client disconnects in the middle of one', async () => {
    for (let i = 0; i < 20; i++) {
      const socket = connectTo(api.baseUrl)
      socket.write(
        'PUT /api/builder/v1/small HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{',
      )
      await once(socket, 'connect')
      socket.destroy()
    }
    const { status } = await api.call('PUT', '/api/builder/v1/small', { body: {} })

    assert.equal(status, 204)
  })
})
