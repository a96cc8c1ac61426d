import assert from 'node:assert/strict'
import Type from 'typebox'
import { RateLimiter } from '../../api/http/rate-limit.ts'
import { route } from '../../api/http/route.ts'
import { ApiError } from '../../domain/errors.ts'
import { startApi } from '../support/api.ts'

const ping = route({
  operationId: 'ping',
  summary: 'Answer',
  method: 'GET',
  path: '/ping',
  auth: 'api-key',
  success: { status: 200, schema: Type.Object({}) },
  handler: () => ({}),
})
const families = [{ name: 'builder', prefix: '/api/builder/v1', errors: 'builder', routes: [ping] }] as const

describe('rate limiting', () => {
  it('answers 429 with Retry-After and says how much is left', async () => {
    await using api = await startApi({ families, env: { HEARTH_RATE_LIMIT: '1', HEARTH_RATE_BURST: '3' } })
    const { key } = await api.account()
    const { key: other } = await api.account()

    const answers = []
    for (let i = 0; i < 4; i++) answers.push(await api.call('GET', '/api/builder/v1/ping', { key }))
    const elsewhere = await api.call('GET', '/api/builder/v1/ping', { key: other })

    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200, 200, 429],
    )
    assert.deepEqual(
      answers.map(({ headers }) => headers['ratelimit-remaining']),
      ['2', '1', '0', '0'],
    )
    assert.equal(answers[3]?.headers['ratelimit-limit'], '3')
    assert.equal(answers[3]?.headers['retry-after'], '1')
    assert.equal(answers[3]?.body.error.code, 'rate_limited')
    assert.equal(elsewhere.status, 200)
  })

  it('limits nothing when it is switched off', async () => {
    await using api = await startApi({ families, env: { HEARTH_RATE_LIMIT: '0' } })
    const { key } = await api.account()

    const { status, headers } = await api.call('GET', '/api/builder/v1/ping', { key })

    assert.equal(status, 200)
    assert.equal(headers['ratelimit-limit'], undefined)
  })

  it('fills up at the sustained rate and never beyond the burst', () => {
    const limiter = new RateLimiter({ perSecond: 10, burst: 5 })
    const takeAll = (now: number): number => {
      for (let taken = 0; ; taken++) {
        try {
          limiter.take('a', [], now)
        } catch (err) {
          assert.ok(err instanceof ApiError && err.code === 'rate_limited')
          return taken
        }
      }
    }

    assert.deepEqual([takeAll(0), takeAll(100), takeAll(400), takeAll(60_000)], [5, 1, 3, 5])
  })
})
