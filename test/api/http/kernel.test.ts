import assert from 'node:assert/strict'
import Type from 'typebox'
import { etagOf } from '../../../api/http/etag.ts'
import type { Family } from '../../../api/http/family.ts'
import { reply } from '../../../api/http/reply.ts'
import { route } from '../../../api/http/route.ts'
import { Nullable } from '../../../schemas/common.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'

const Echo = Type.Object({
  word: Type.String({ minLength: 1 }),
  times: Type.Optional(Type.Integer({ minimum: 1, default: 1 })),
  note: Type.Optional(Nullable(Type.String())),
  free: Type.Optional(Type.Unknown()),
})

const echo = route({
  operationId: 'echo',
  summary: 'Say it again',
  method: 'POST',
  path: '/echo/{id}:say',
  auth: 'api-key',
  params: Type.Object({ id: Type.String({ format: 'uuid' }) }),
  body: Echo,
  success: { status: 200, schema: Type.Object({ said: Type.Array(Type.String()) }) },
  handler: async ({ body }) => ({ said: Array.from({ length: body.times ?? 0 }, () => body.word) }),
})

const getThing = route({
  operationId: 'getThing',
  summary: 'Read a thing',
  method: 'GET',
  path: '/things/{name}',
  auth: 'none',
  etag: true,
  params: Type.Object({ name: Type.String() }),
  query: Type.Object({
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 20 })),
    loud: Type.Optional(Type.Boolean({ default: false })),
  }),
  success: {
    status: 200,
    schema: Type.Object({ name: Type.String(), limit: Type.Integer(), loud: Type.Boolean() }),
  },
  handler: ({ params, query }) => {
    const body = { name: params.name, limit: query.limit, loud: query.loud }
    return reply(200, body, { etag: etagOf(body) })
  },
})

const callFirst = route({
  operationId: 'callFirst',
  summary: 'Do something to the first thing',
  method: 'POST',
  path: '/things/first',
  auth: 'none',
  success: { status: 204 },
  handler: () => reply(204),
})

const breakDown = route({
  operationId: 'breakDown',
  summary: 'Fail in one of several ways',
  method: 'GET',
  path: '/break/{how}',
  auth: 'none',
  params: Type.Object({ how: Type.String() }),
  success: { status: 200, schema: Type.Object({ n: Type.Integer() }) },
  async handler({ params }, { db }) {
    if (params.how === 'nul')
      await db.selectFrom('account').select('id').where('name', '=', 'a\u0000b').execute()
    if (params.how === 'secret') throw new Error('the password is hunter2')
    if (params.how === 'unreachable') throw Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })
    if (params.how === 'undeclared') throw Object.assign(new Error('x'), { code: '23505' })
    return { n: 'seven' as unknown as number }
  },
})

const chat = route({ ...getThing, operationId: 'chat', path: '/chat/{name}' })

const families: Family[] = [
  {
    name: 'builder',
    prefix: '/api/builder/v1',
    errors: 'builder',
    routes: [echo, getThing, callFirst, breakDown],
  },
  { name: 'openai', prefix: '/v1', errors: 'openai', routes: [chat] },
]
const ID = '01890000-0000-7000-8000-000000000000'
const SAY = `/api/builder/v1/echo/${ID}:say`

describe('the HTTP kernel', () => {
  let api: TestApi
  let key: string
  before(async () => {
    api = await startApi({ families })
    key = (await api.account()).key
  })
  after(() => api[Symbol.asyncDispose]())

  it('passes the handler a body with defaults applied', async () => {
    const { status, body } = await api.call('POST', SAY, { key, body: { word: 'ho' } })

    assert.equal(status, 200)
    assert.deepEqual(body, { said: ['ho'] })
  })

  it('reports every validation error of a body, in both formats', async () => {
    const { status, body } = await api.call('POST', SAY, { key, body: { times: '2', note: 5 } })

    assert.equal(status, 422)
    assert.deepEqual(
      body.detail.map(({ loc, type }: { loc: unknown; type: string }) => [loc, type]),
      [
        [['body', 'word'], 'missing'],
        [['body', 'times'], 'type'],
        [['body', 'note'], 'type'],
      ],
    )
    assert.equal(body.error.code, 'validation_failed')
    assert.deepEqual(body.error.details.issues, body.detail)
  })

  it('does not coerce types that JSON can express', async () => {
    const { status } = await api.call('POST', SAY, { key, body: { word: 1 } })

    assert.equal(status, 422)
  })

  it('treats a missing body as an empty one', async () => {
    const { status, body } = await api.call('POST', SAY, { key })

    assert.equal(status, 422)
    assert.deepEqual(body.detail[0].loc, ['body', 'word'])
  })

  it('coerces the query and ignores unknown parameters', async () => {
    const { body } = await api.call('GET', '/api/builder/v1/things/x?limit=7&loud=true&colour=red')

    assert.deepEqual(body, { name: 'x', limit: 7, loud: true })
  })

  it('accepts the same spellings of a boolean as FastAPI', async () => {
    const loud = async (word: string) =>
      (await api.call('GET', `/api/builder/v1/things/x?loud=${word}`)).body.loud
    for (const word of ['true', 'True', 'TRUE', '1', 'yes', 'Yes', 'on', 'ON', 't', 'y', 'Y']) {
      assert.equal(await loud(word), true, word)
    }
    for (const word of ['false', 'False', '0', 'no', 'NO', 'off', 'f', 'F', 'n']) {
      assert.equal(await loud(word), false, word)
    }
  })

  it('rejects a query parameter that cannot be coerced or is given twice', async () => {
    const booleans = ['loud=perhaps', 'loud=', 'loud=2', 'loud=null', 'loud=%20true', 'loud=1&loud=True']
    for (const query of ['limit=many', 'limit=0', 'limit=101', 'limit=1&limit=2', 'limit=', ...booleans]) {
      const { status, body } = await api.call('GET', `/api/builder/v1/things/x?${query}`)

      assert.equal(status, 422, query)
      assert.equal(body.detail[0].loc[0], 'query')
    }
  })

  it('decodes one path segment as a whole', async () => {
    const { body } = await api.call('GET', '/api/builder/v1/things/org%2Fn%C3%A4me')

    assert.equal(body.name, 'org/näme')
  })

  it('answers 400 to a path that is not UTF-8', async () => {
    const { status, body } = await api.call('GET', '/api/builder/v1/things/%E0%A4%A')

    assert.equal(status, 400)
    assert.equal(body.error.code, 'bad_request')
  })

  it('answers 422 to an invalid path parameter', async () => {
    const { status, body } = await api.call('POST', '/api/builder/v1/echo/seven:say', {
      key,
      body: { word: 'a' },
    })

    assert.equal(status, 422)
    assert.deepEqual(body.detail[0].loc, ['path', 'id'])
  })

  it('matches a literal verb whether or not its colon is encoded', async () => {
    const { status } = await api.call('POST', SAY.replace(':say', '%3Asay'), { key, body: { word: 'a' } })

    assert.equal(status, 200)
  })

  it('answers 404 to an unknown route in the error format of its family', async () => {
    const builder = await api.call('GET', '/api/builder/v1/nothing')
    const openai = await api.call('GET', '/v1/nothing')
    const outside = await api.call('GET', '/nothing')

    assert.deepEqual([builder.status, openai.status, outside.status], [404, 404, 404])
    assert.equal(builder.body.error.code, 'not_found')
    assert.equal(builder.body.error.request_id, builder.headers['x-request-id'])
    assert.deepEqual(Object.keys(openai.body.error), ['message', 'type', 'code', 'param'])
    assert.equal(outside.body.error.code, 'not_found')
  })

  it('answers 405 with Allow to a wrong method, and OPTIONS with the same list', async () => {
    const wrong = await api.call('DELETE', '/api/builder/v1/things/x')
    const options = await api.call('OPTIONS', '/api/builder/v1/things/x')

    assert.equal(wrong.status, 405)
    assert.equal(wrong.headers.allow, 'GET, HEAD, OPTIONS')
    assert.equal(options.status, 204)
    assert.equal(options.headers.allow, 'GET, HEAD, OPTIONS')
  })

  it('takes the allowed methods of a path from its most specific route', async () => {
    const first = await api.call('DELETE', '/api/builder/v1/things/first')
    const other = await api.call('DELETE', '/api/builder/v1/things/other')

    assert.deepEqual([first.status, first.headers.allow], [405, 'POST, OPTIONS'])
    assert.deepEqual([other.status, other.headers.allow], [405, 'GET, HEAD, OPTIONS'])
    assert.equal((await api.call('GET', '/api/builder/v1/things/first')).status, 405)
  })

  it('validates the encoding of a path only as far as a route matches it, and matches paths exactly', async () => {
    const statusOf = async (path: string) => (await api.call('GET', path)).status

    assert.equal(await statusOf('/api/builder/v1/things/%zz/more'), 400)
    assert.equal(await statusOf('/api/builder/v1/nothing/%zz'), 404)
    assert.equal(await statusOf('/api/builder/v1/things/x/'), 404)
    assert.equal(await statusOf('/api/builder/v1//things/x'), 404)
    assert.equal(await statusOf('/api/builder/v1/Things/x'), 404)
  })

  it('answers HEAD like GET, without the body', async () => {
    const { status, headers, text } = await api.call('HEAD', '/api/builder/v1/things/x')

    assert.equal(status, 200)
    assert.equal(headers['content-length'], String('{"name":"x","limit":20,"loud":false}'.length))
    assert.equal(text, '')
  })

  it('answers 304 while the ETag is current', async () => {
    const first = await api.call('GET', '/api/builder/v1/things/x')
    const etag = String(first.headers.etag)
    const again = await api.call('GET', '/api/builder/v1/things/x', {
      headers: { 'if-none-match': `"other", W/${etag}` },
    })
    const other = await api.call('GET', '/api/builder/v1/things/y', { headers: { 'if-none-match': etag } })

    assert.equal(again.status, 304)
    assert.equal(again.text, '')
    assert.equal(again.headers.etag, etag)
    assert.equal(other.status, 200)
  })

  it('answers 422, not 500, to text that the database cannot store', async () => {
    const { status } = await api.call('GET', '/api/builder/v1/break/nul')

    assert.equal(status, 422)
  })

  it('hides internal error details from the response', async () => {
    const { status, text } = await api.call('GET', '/api/builder/v1/break/secret')

    assert.equal(status, 500)
    assert.doesNotMatch(text, /hunter2/)
  })

  it('answers 503 with Retry-After when a dependency is unreachable', async () => {
    const { status, body, headers } = await api.call('GET', '/api/builder/v1/break/unreachable')

    assert.equal(status, 503)
    assert.equal(body.error.code, 'unavailable')
    assert.equal(headers['retry-after'], '1')
  })

  it("fails a test request whose response does not match the route's schema", async () => {
    const { status, body } = await api.call('GET', '/api/builder/v1/break/lie')

    assert.equal(status, 500)
    assert.match(body.error.message, /breakDown returned 200 with a body that does not match its schema/)
  })

  it("gives each request an id, the client's own if it is well-formed", async () => {
    const own = await api.call('GET', '/nothing', { headers: { 'x-request-id': 'trace-1.a' } })
    const odd = await api.call('GET', '/nothing', { headers: { 'x-request-id': 'a b<script>' } })
    const none = await api.call('GET', '/api/builder/v1/things/x')

    assert.equal(own.headers['x-request-id'], 'trace-1.a')
    assert.equal(own.body.error.request_id, 'trace-1.a')
    assert.match(String(odd.headers['x-request-id']), /^[0-9a-f-]{36}$/)
    assert.match(String(none.headers['x-request-id']), /^[0-9a-f-]{36}$/)
  })
})
