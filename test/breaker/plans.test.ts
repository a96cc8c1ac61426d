import assert from 'node:assert/strict'
import { type AnyBody, startApi, type TestApi } from '../support/servers/api.ts'

describe('plans, as a breaker makes them', () => {
  let api: TestApi
  let caller: { accountId: string; key: string }
  before(async () => {
    api = await startApi()
    caller = await api.account()
  })
  after(() => api[Symbol.asyncDispose]())
  const call = (path: string, body: object) =>
    api.call<AnyBody>('POST', `/api/v1${path}`, {
      key: caller.key,
      headers: { 'x-account-id': caller.accountId, 'x-user-id': 'someone' },
      body,
    })

  it('do not hold the loop of the gateway for places deep in long lists', async function () {
    this.timeout(60_000)
    const deep = '/1024'.repeat(198)
    const edges = Array.from({ length: 48 }, (_, i) => ({
      from: { stage_id: 'input', path: '/x' },
      to: { stage_id: 'a', path: `/k${i}${deep}` },
    }))
    const started = performance.now()
    const { status } = await call('/cohorts:plan', {
      stages: [{ stage_id: 'a', endpoint_id: 'none' }],
      edges,
    })
    const ms = performance.now() - started
    assert.ok(status === 200 || status === 422)
    assert.ok(ms < 1_000, `${Math.round(ms)} ms`)
  })

  it('do not ask the database thousands of times for one graph', async function () {
    this.timeout(60_000)
    const stages = Array.from({ length: 64 }, (_, i) => ({
      stage_id: `s${i}`,
      endpoint_id: `none-${i}`,
      fallbacks: [0, 1, 2, 3].map((j) => `none-${i}-${j}`),
    }))
    const started = performance.now()
    const { status } = await call('/cohorts:plan', { stages, edges: [] })
    assert.equal(status, 200)
    // 640 questions one after another take 0.6 to 1.2 s here.
    assert.ok(performance.now() - started < 200)
  })

  for (const path of ['/cohorts:plan', '/cohorts:run'])
    it(`${path} refuses NUL in every text`, async () => {
      const plan = {
        name: 'a\u0000b',
        stages: [{ stage_id: 'a', endpoint_id: 'x\u0000', input: { 'k\u0000': '\ud800' } }],
        edges: [],
      }
      const { status, text } = await call(
        path,
        path.endsWith('plan') ? plan : { plan, input: { x: '\u0000' } },
      )
      assert.equal(status, 422, text)
    })

  it('capabilities of an endpoint whose name has NUL', async () => {
    const { status, text } = await api.call<AnyBody>(
      'GET',
      '/api/v1/cohorts/capabilities?endpoint_id=a%00b',
      {
        key: caller.key,
        headers: { 'x-account-id': caller.accountId },
      },
    )
    assert.ok([404, 422].includes(status), text)
  })
})
