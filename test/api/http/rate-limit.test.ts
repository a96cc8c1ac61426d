import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import Type from 'typebox'
import { RateLimiter } from '../../../api/http/rate-limit.ts'
import { route } from '../../../api/http/route.ts'
import { ApiError } from '../../../domain/errors.ts'
import { startApi } from '../../support/servers/api.ts'

const ping = route({
  operationId: 'ping',
  summary: 'Answer',
  method: 'GET',
  path: '/ping',
  auth: 'api-key',
  success: { status: 200, schema: Type.Object({}) },
  handler: () => ({}),
})
/** An account's concurrent requests: the current number and the maximum. */
const atWork = new Map<string, number>()
const most = new Map<string, number>()
const long = route({
  operationId: 'long',
  summary: 'Answer at length',
  method: 'GET',
  path: '/long',
  auth: 'api-key',
  isLong: true,
  query: Type.Object({ bytes: Type.Integer(), ms: Type.Optional(Type.Integer()) }),
  success: { status: 200, schema: Type.Object({ text: Type.String() }) },
  async handler({ caller: { accountId }, query: { bytes, ms = 0 } }) {
    const now = (atWork.get(accountId) ?? 0) + 1
    atWork.set(accountId, now)
    most.set(accountId, Math.max(now, most.get(accountId) ?? 0))
    await sleep(ms)
    atWork.set(accountId, (atWork.get(accountId) ?? 0) - 1)
    return { text: 'x'.repeat(bytes) }
  },
})
const longFamilies = [
  { name: 'builder', prefix: '/api/builder/v1', errors: 'builder', routes: [long] },
] as const
const families = [{ name: 'builder', prefix: '/api/builder/v1', errors: 'builder', routes: [ping] }] as const

describe('rate limiting', () => {
  it('answers 429 with Retry-After and reports the remaining requests', async () => {
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

  it('pauses an account after a long response in proportion to its length, without slowing others', async () => {
    await using api = await startApi({ families: longFamilies, env: { HEARTH_RATE_LIMIT: '0' } })
    const [one, other] = [await api.account(), await api.account()]
    const ask = (key: string, bytes: number) =>
      api.call('GET', `/api/builder/v1/long?bytes=${bytes}`, { key })
    const timed = async (answer: Promise<unknown>) => {
      const began = performance.now()
      await answer
      return performance.now() - began
    }
    for (const { key } of [one, other]) await ask(key, 10)

    await ask(one.key, 16 * 1024 * 1024)
    const [rested, elsewhere] = await Promise.all([timed(ask(one.key, 10)), timed(ask(other.key, 10))])

    assert.ok(rested > 1_000 && rested < 10_000, `${rested} ms`)
    assert.ok(elsewhere < rested / 2, `${elsewhere} ms beside ${rested} ms`)
  })

  it('serializes the long responses of one account without delaying other accounts', async () => {
    await using api = await startApi({ families: longFamilies, env: { HEARTH_RATE_LIMIT: '0' } })
    const [one, other] = [await api.account(), await api.account()]
    const ask = (key: string) => api.call('GET', '/api/builder/v1/long?bytes=1&ms=10', { key })

    const many = Array.from({ length: 300 }, () => ask(one.key))
    await many[0]
    const before = performance.now()
    const { status } = await ask(other.key)
    const took = performance.now() - before
    const statuses = (await Promise.all(many)).map((answer) => answer.status)

    assert.equal(status, 200)
    assert.ok(took < 3_000, `${took} ms`)
    assert.deepEqual([most.get(one.accountId), most.get(other.accountId)], [1, 1])
    const refused = statuses.filter((each) => each === 429).length
    assert.ok(refused > 0 && refused < 60, `${refused} were refused`)
    assert.equal(statuses.filter((each) => each === 200).length, 300 - refused)
  })

  it('applies no limit when it is switched off', async () => {
    await using api = await startApi({ families, env: { HEARTH_RATE_LIMIT: '0' } })
    const { key } = await api.account()

    const { status, headers } = await api.call('GET', '/api/builder/v1/ping', { key })

    assert.equal(status, 200)
    assert.equal(headers['ratelimit-limit'], undefined)
  })

  it('refills at the sustained rate, up to the burst', () => {
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
