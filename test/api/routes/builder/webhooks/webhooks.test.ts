import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import * as eventRepository from '../../../../../db/repositories/webhooks/events.ts'
import { newId } from '../../../../../domain/ids.ts'
import {
  startDestination,
  startWebhookPlatform,
  type TestDestination,
  type WebhookPlatform,
} from '../../../../support/builders/webhooks.ts'

const BASE = '/api/builder/v1'

describe('webhooks', () => {
  let platform: WebhookPlatform
  let destination: TestDestination
  before(async () => {
    destination = await startDestination()
    platform = await startWebhookPlatform([destination.receiver.port])
  })
  after(async () => {
    await platform?.[Symbol.asyncDispose]()
    await destination?.[Symbol.asyncDispose]()
  })
  beforeEach(() => {
    destination.answer = 204
    destination.received.length = 0
  })

  const call = (...args: Parameters<WebhookPlatform['api']['call']>) => platform.api.call(...args)

  async function until<T>(what: string, look: () => Promise<T | undefined | false>): Promise<T> {
    for (const since = Date.now(); ;) {
      const seen = await look()
      if (seen) return seen
      assert.ok(Date.now() - since < 60_000, `in time: ${what}`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }

  async function verifiedEndpoint(key: string, eventTypes = ['inference.task.succeeded']) {
    const created = await call('POST', `${BASE}/webhook-endpoints`, {
      key,
      body: { name: 'mine', url: destination.receiver.url('/in?token=secret'), event_types: eventTypes },
    })
    assert.equal(created.status, 201, created.text)
    const path = `${BASE}/webhook-endpoints/${created.body.endpoint_id}`
    await until('verified', async () => {
      const { body } = await call('GET', path, { key })
      return body.verification_status === 'active'
    })
    return { id: created.body.endpoint_id as string, secret: created.body.secret as string, path }
  }

  const emit = async (accountId: string, type = 'inference.task.succeeded') => {
    const id = newId()
    await eventRepository.insertEvents(
      platform.api.database.db,
      [
        {
          accountId,
          type,
          resource: { id, object: 'inference.task', status: 'succeeded' },
          resourceUrl: `${BASE}/tasks/${id}`,
        },
      ],
      new Date(),
    )
    return id
  }

  it('verify a destination, then deliver signed events immediately', async () => {
    const { accountId, key } = await platform.api.account()
    const { secret } = await verifiedEndpoint(key)

    const resourceId = await emit(accountId)
    const got = await until('delivered', async () => destination.received[0])

    assert.equal(got.event.data.resource.id, resourceId)
    assert.equal(got.headers['service-event-id'], got.event.id)
    assert.equal(got.headers['service-attempt'], '1')
    assert.equal(got.headers['service-webhook-version'], '1')
    const [, t, v1] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(got.headers['service-signature'])) ?? []
    assert.equal(v1, createHmac('sha256', secret).update(`${t}.${got.body}`).digest('hex'))

    const delivery = await until('recorded', async () => {
      const { body } = await call('GET', `${BASE}/webhook-deliveries?status=succeeded`, { key })
      return body.deliveries[0]
    })
    const detail = await call('GET', `${BASE}/webhook-deliveries/${delivery.delivery_id}`, { key })
    assert.equal(detail.body.attempts.length, 1)
    assert.equal(detail.body.attempts[0].outcome, 'succeeded')
    assert.equal(detail.body.attempts[0].status_class, '2xx')
  })

  it('never show the URL or the secret again', async () => {
    const { key } = await platform.api.account()
    const { path, secret } = await verifiedEndpoint(key)

    const read = await call('GET', path, { key })

    assert.equal(read.body.url, 'https://***')
    assert.equal(read.text.includes('token=secret'), false)
    assert.equal(read.text.includes(secret), false)
    assert.equal(read.body.secret_hint, secret.slice(-4))
  })

  it('retry a failed delivery in a workflow that accepts a retry_now signal', async () => {
    const { accountId, key } = await platform.api.account()
    await verifiedEndpoint(key)
    destination.answer = 500

    await emit(accountId)
    const delivery = await until('retrying', async () => {
      const { body } = await call('GET', `${BASE}/webhook-deliveries?status=retrying`, { key })
      return body.deliveries[0]
    })
    destination.answer = 204
    const handle = platform.temporal.client.workflow.getHandle(`delivery/${delivery.delivery_id}`)
    await until('the workflow', async () =>
      handle.describe().then(
        () => true,
        () => false,
      ),
    )
    await handle.signal('retry_now')

    const ended = await until('succeeded', async () => {
      const { body } = await call('GET', `${BASE}/webhook-deliveries/${delivery.delivery_id}`, { key })
      return body.status === 'succeeded' && body
    })
    assert.deepEqual(
      ended.attempts.map(({ attempt, outcome, error_code }: Record<string, unknown>) => [
        attempt,
        outcome,
        error_code,
      ]),
      [
        [1, 'retryable', 'http_5xx'],
        [2, 'succeeded', null],
      ],
    )
    assert.equal(destination.received[0]?.body, destination.received[1]?.body)
    await handle.result()
  })

  it('disable an endpoint that answers 410', async () => {
    const { accountId, key } = await platform.api.account()
    const { path } = await verifiedEndpoint(key)
    destination.answer = 410

    await emit(accountId)

    const endpoint = await until('disabled', async () => {
      const { body } = await call('GET', path, { key })
      return !body.enabled && body
    })
    assert.match(endpoint.disabled_reason, /410/)
  })
})
