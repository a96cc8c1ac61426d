import assert from 'node:assert/strict'
import Type from 'typebox'
import type { Family } from '../../../api/http/family.ts'
import { route } from '../../../api/http/route.ts'
import { startApi, type TestApi } from '../../support/servers/api.ts'

const Said = Type.Object({ said: Type.String(), to: Type.Union([Type.String(), Type.Null()]) })
const Say = Type.Object({ word: Type.String() })

const say = route({
  operationId: 'say',
  summary: 'Say a word',
  method: 'POST',
  path: '/say',
  auth: 'api-key',
  isHot: true,
  body: Say,
  success: { status: 200, schema: Said },
  handler: ({ body }) => ({ said: body.word, to: null }),
})

const tell = route({
  ...say,
  operationId: 'tell',
  path: '/people/{name}/tell',
  params: Type.Object({ name: Type.String({ maxLength: 9 }) }),
  body: Say,
  handler: ({ params, body }) => ({ said: body.word, to: params.name }),
})

const families: Family[] = [
  { name: 'builder', prefix: '/api/builder/v1', errors: 'builder', routes: [say, tell] },
]

/** Query strings that send the same request past Koa or through it. */
const WAYS = ['', '?through=koa']

describe('the hot path', () => {
  let api: TestApi
  let key: string
  before(async () => {
    api = await startApi({ families })
    key = (await api.account()).key
  })
  after(() => api[Symbol.asyncDispose]())

  it('answers exactly like Koa and its router, headers included', async () => {
    const headers = { 'x-request-id': 'same' }
    const calls = [
      ['POST', '/say', { key, body: { word: 'ho' } }],
      ['POST', '/say', { key, body: { word: 1 } }],
      ['POST', '/say', { key, raw: '{' }],
      ['POST', '/say', { body: { word: 'ho' } }],
      ['GET', '/say', { key }],
      ['OPTIONS', '/say', {}],
      ['POST', '/people/ann/tell', { key, body: { word: 'ho' } }],
      ['POST', '/people/much-too-long/tell', { key, body: { word: 'ho' } }],
      ['POST', '/people//tell', { key }],
      ['POST', '/people/ann/b/tell', { key }],
    ] as const
    for (const [method, path, call] of calls) {
      const [past, through] = await Promise.all(
        WAYS.map(async (query) => {
          const answer = await api.call(method, `/api/builder/v1${path}${query}`, {
            ...call,
            headers: { 'content-type': 'application/json', ...headers },
          })
          const { date: _date, 'ratelimit-remaining': _left, ...rest } = answer.headers
          return { status: answer.status, headers: Object.entries(rest), text: answer.text }
        }),
      )
      assert.deepEqual(past, through, `${method} ${path}`)
    }
  })

  it('leaves encoded paths to the router', async () => {
    const { body } = await api.call('POST', '/api/builder/v1/people/a%2Fb/tell', {
      key,
      body: { word: 'ho' },
    })
    const bad = await api.call('POST', '/api/builder/v1/people/%zz/tell', { key, body: { word: 'ho' } })

    assert.deepEqual(body, { said: 'ho', to: 'a/b' })
    assert.equal(bad.status, 400)
  })
})
