import assert from 'node:assert/strict'
import Stripe from 'stripe'
import { verifyWebhook } from '../../../platform/webhook-signature.ts'
import { startDestination, type TestDestination } from '../../support/builders/webhooks.ts'
import { type SkippingTemporal, startSkippingTemporal } from '../../support/servers/temporal-time.ts'
import { WebhookDays } from '../../support/servers/webhook-days.ts'
import { skipBecause } from '../../support/skip.ts'

const MINUTE = 60
const HOUR = 60 * MINUTE
const SCHEDULE = [0, 30, 2 * MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, 24 * HOUR, 36 * HOUR]

describe('a delivery over 48 hours', () => {
  let temporal: SkippingTemporal
  let destination: TestDestination
  let days: WebhookDays
  before(async function () {
    const started = await startSkippingTemporal()
    if ('missing' in started) return skipBecause(this, started.missing)
    temporal = started
    destination = await startDestination()
    days = await WebhookDays.start(temporal, [destination.receiver.port])
  })
  after(async () => {
    await days?.[Symbol.asyncDispose]()
    await destination?.[Symbol.asyncDispose]()
    await temporal?.[Symbol.asyncDispose]()
  })
  beforeEach(() => {
    destination.received.length = 0
    destination.answer = 503
  })

  /** Creates a delivery whose first attempt has been made. */
  async function begun() {
    const endpoint = await days.endpoint(destination.receiver.url('/in'))
    const id = await days.emit(endpoint.id)
    await days.dispatch()
    return { endpoint, id }
  }
  const outcomes = (delivery: { attempts: { outcome: string }[] }) =>
    delivery.attempts.map(({ outcome }) => outcome)
  const assertSchedule = async (id: string, expected: number[], slack = 5) => {
    const offsets = await days.offsets(id)
    assert.equal(offsets.length, expected.length, offsets.join())
    for (const [i, at] of offsets.entries()) {
      const late = at - (expected[i] ?? Number.NaN)
      assert.ok(late >= 0 && late <= slack + (i === 7 ? 10 * MINUTE : 0), `${offsets.join()} at ${i + 1}`)
    }
  }

  it('is tried eight times on schedule, then stored as dead_lettered', async () => {
    const { id, endpoint } = await begun()

    const delivery = await days.follow(id)

    assert.equal(delivery.status, 'dead_lettered')
    await assertSchedule(id, SCHEDULE)
    assert.deepEqual(
      delivery.attempts.map(({ attempt, outcome, error_code, status_class }) => [
        attempt,
        outcome,
        error_code,
        status_class,
      ]),
      SCHEDULE.map((_, i) => [i + 1, 'retryable', 'http_5xx', '5xx']),
    )
    assert.deepEqual(
      destination.received.map(({ headers }) => headers['service-attempt']),
      ['1', '2', '3', '4', '5', '6', '7', '8'],
    )
    assert.equal(new Set(destination.received.map(({ body }) => body)).size, 1)
    assert.equal(new Set(destination.received.map(({ headers }) => headers['service-event-id'])).size, 1)
    const stamps = destination.received.map(({ headers }) => String(headers['service-signature']))
    assert.equal(new Set(stamps).size, 8, 'every attempt must be signed with its own timestamp')
    for (const { headers, body } of destination.received) {
      const signature = String(headers['service-signature'])
      const at = new Date(Number(/t=(\d+)/.exec(signature)?.[1]) * 1000)
      assert.ok(verifyWebhook([endpoint.secret], signature, Buffer.from(body), at))
    }
  })

  it('ends with the first attempt that returns 2xx', async () => {
    const { id } = await begun()
    destination.answer = ({ headers }) => ({ status: headers['service-attempt'] === '4' ? 200 : 500 })

    const delivery = await days.follow(id)

    assert.equal(delivery.status, 'succeeded')
    assert.deepEqual(outcomes(delivery), ['retryable', 'retryable', 'retryable', 'succeeded'])
  })

  it('waits as long as Retry-After demands, in seconds or as a date, if that is later', async () => {
    const asks = [undefined, '7200', new Date(0).toUTCString(), '10']
    destination.answer = ({ headers }) => {
      const retryAfter = asks[Number(headers['service-attempt'])]
      return { status: 429, ...(retryAfter && { headers: { 'retry-after': retryAfter } }) }
    }
    const { id } = await begun()

    await days.follow(id)

    // Attempts that became due while it waited are 30 s apart.
    const [, ...later] = await days.offsets(id)
    const expected = [2 * HOUR, 2 * HOUR + 30, 2 * HOUR + 60, 2 * HOUR + 90]
    for (const [i, at] of expected.entries()) assert.ok(Math.abs((later[i] ?? 0) - at) < 10, later.join())
  })

  it('follows a Retry-After date in the future', async () => {
    let retryAtS = 0
    destination.answer = ({ headers }) => {
      if (headers['service-attempt'] !== '2') return { status: 204 }
      retryAtS = Math.floor(days.deps.now().getTime() / 1000) + 5 * HOUR
      return { status: 503, headers: { 'retry-after': new Date(retryAtS * 1000).toUTCString() } }
    }
    destination.answer = withFirst(500, destination.answer)
    const { id } = await begun()

    const delivery = await days.follow(id)

    assert.ok(Math.abs(Date.parse(delivery.attempts[2].started_at) / 1000 - retryAtS) < 10)
  })

  it('ignores a Retry-After beyond its deadline', async () => {
    destination.answer = () => ({ status: 503, headers: { 'retry-after': String(49 * HOUR) } })
    const { id } = await begun()

    const delivery = await days.follow(id)

    assert.deepEqual([delivery.status, delivery.attempts.length], ['dead_lettered', 8])
  })

  it('ignores Retry-After on other statuses', async () => {
    destination.answer = () => ({ status: 500, headers: { 'retry-after': '7200' } })
    const { id } = await begun()

    await days.follow(id)

    await assertSchedule(id, SCHEDULE)
  })

  it('is signed with both secrets during a graceful rotation, and only with the new one afterwards', async () => {
    const { id, endpoint } = await begun()
    let fresh = ''

    await days.follow(id, async (attempt) => {
      if (attempt !== 4) return
      const { body } = await days.call('POST', `/webhook-endpoints/${endpoint.id}/rotate-secret`, {
        mode: 'graceful',
        overlap_s: 2 * HOUR,
      })
      fresh = body.secret
    })

    const counts = destination.received.map(
      ({ headers }) => String(headers['service-signature']).split('v1=').length - 1,
    )
    assert.deepEqual(counts, [1, 1, 1, 2, 2, 1, 1, 1])
    for (const { headers, body } of destination.received.slice(3, 5)) {
      for (const secret of [endpoint.secret, fresh])
        assertStripe(body, String(headers['service-signature']), secret)
    }
    for (const { headers, body } of destination.received.slice(5)) {
      assertStripe(body, String(headers['service-signature']), fresh)
      assert.throws(() => assertStripe(body, String(headers['service-signature']), endpoint.secret))
    }
  })

  it('is signed only with the new secret after an emergency rotation', async () => {
    const { id, endpoint } = await begun()

    await days.follow(id, async (attempt) => {
      if (attempt === 3)
        await days.call('POST', `/webhook-endpoints/${endpoint.id}/rotate-secret`, { mode: 'emergency' })
    })

    const verified = destination.received.map(({ headers, body }) => {
      try {
        assertStripe(body, String(headers['service-signature']), endpoint.secret)
        return true
      } catch {
        return false
      }
    })
    assert.deepEqual(verified, [true, true, false, false, false, false, false, false])
  })

  it('is signed with the secrets that were current when it was resent, unless an emergency rotation ended them', async () => {
    const { id, endpoint } = await begun()
    await days.follow(id)
    const { body: again } = await days.call('POST', `/webhook-deliveries/${id}/redeliver`)
    destination.received.length = 0
    await days.dispatch()
    const rotate = (mode: string) =>
      days.call('POST', `/webhook-endpoints/${endpoint.id}/rotate-secret`, { mode, overlap_s: 0 })

    await days.follow(again.delivery_id, async (attempt) => {
      if (attempt === 3) await rotate('graceful')
      if (attempt === 6) await rotate('emergency')
    })

    const fits = destination.received.map(({ headers, body }) => {
      const signature = String(headers['service-signature'])
      const at = new Date(Number(/t=(\d+)/.exec(signature)?.[1]) * 1000)
      return verifyWebhook([endpoint.secret], signature, Buffer.from(body), at)
    })
    assert.deepEqual(fits, [true, true, true, true, true, false, false, false])
  })

  for (const [what, end] of [
    ['disabled', (id: string) => days.patch(id, { enabled: false })],
    [
      'deleted',
      async (id: string) => {
        const { headers } = await days.call('GET', `/webhook-endpoints/${id}`)
        await days.call('DELETE', `/webhook-endpoints/${id}`, undefined, {
          'if-match': String(headers['etag']),
        })
      },
    ],
  ] as const) {
    it(`is cancelled if its endpoint is ${what} mid-schedule`, async () => {
      const { id, endpoint } = await begun()

      const delivery = await days.follow(id, async (attempt) => {
        if (attempt === 5) await end(endpoint.id)
      })

      assert.deepEqual([delivery.status, delivery.attempts.length], ['cancelled', 4])
      assert.equal(destination.received.length, 4)
    })
  }

  it('waits for the new verification after a URL change, and then goes to the new URL', async () => {
    const { id, endpoint } = await begun()
    destination.answer = 503

    let isMoved = false
    const delivery = await days.follow(id, async (attempt) => {
      if (attempt !== 3 || isMoved) return
      isMoved = true
      await days.patch(endpoint.id, { url: destination.receiver.url('/elsewhere') })
      destination.answer = 204
      // Verified a few hours later, as its own workflow would do.
      setTimeout(() => void verify(endpoint.id), 300)
    })

    assert.equal(delivery.status, 'succeeded')
    assert.deepEqual(outcomes(delivery), ['retryable', 'retryable', 'succeeded'])
  })

  it('is dead-lettered at its deadline if its endpoint was not verified', async () => {
    const { id, endpoint } = await begun()

    const delivery = await days.follow(id, async (attempt) => {
      if (attempt === 3) await days.patch(endpoint.id, { url: destination.receiver.url('/elsewhere') })
    })

    assert.deepEqual([delivery.status, delivery.attempts.length], ['dead_lettered', 2])
  })

  const verify = (endpointId: string) =>
    days.deps.db
      .updateTable('webhook_endpoint')
      .set({ verification_status: 'active' })
      .where('id', '=', endpointId)
      .execute()

  type Answer = Extract<TestDestination['answer'], (...args: never[]) => unknown>
  function withFirst(status: number, rest: TestDestination['answer']): Answer {
    return (one) =>
      one.headers['service-attempt'] === '1'
        ? { status }
        : typeof rest === 'function'
          ? rest(one)
          : { status: rest }
  }

  /** Verifies our header with a third-party library, which throws on an invalid signature. */
  function assertStripe(body: string, header: string, secret: string): void {
    const at = Number(/t=(\d+)/.exec(header)?.[1])
    const event = new Stripe('sk_test_unused').webhooks.constructEvent(
      body,
      header,
      secret,
      300,
      undefined,
      at,
    )
    assert.match(String(event.type), /^training\.run/)
  }
})
