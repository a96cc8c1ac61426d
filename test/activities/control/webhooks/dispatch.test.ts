import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { MockActivityEnvironment } from '@temporalio/testing'
import type { WebhookDeps } from '../../../../activities/control/webhooks/deps.ts'
import { createWebhookActivities } from '../../../../activities/control/webhooks/index.ts'
import { EgressPolicy } from '../../../../platform/egress/policy.ts'
import { PublicSender } from '../../../../platform/egress/public-sender.ts'
import { createLogger } from '../../../../platform/log.ts'
import { until } from '../../../support/assertions/until.ts'
import { DELIVERIES, ifMatch, WEBHOOK_BODY, WebhookRoutes } from '../../../support/builders/webhook-routes.ts'
import { type Receiver, startReceiver } from '../../../support/servers/receiver.ts'

describe('webhook dispatch', () => {
  let on: WebhookRoutes
  let receiver: Receiver
  let sender: PublicSender
  let answer: (res: ServerResponse, path: string | undefined) => void
  const open: ServerResponse[] = []
  before(async () => {
    receiver = await startReceiver((req, res) => answer(res, req.url))
    const allow = [`127.0.0.0/8:${receiver.port}`]
    on = await WebhookRoutes.start({ HEARTH_EGRESS_ALLOW: allow })
    sender = new PublicSender(new EgressPolicy({ allow, block: [] }), async () => ['127.0.0.1'])
  })
  after(async () => {
    await sender?.[Symbol.asyncDispose]()
    await receiver?.[Symbol.asyncDispose]()
    await on?.api[Symbol.asyncDispose]()
  })
  beforeEach(async () => {
    answer = (res) => open.push(res)
    open.length = 0
    await on.api.database.db.deleteFrom('webhook_delivery').execute()
    await on.newAccount()
  })

  const destination = async (path = '/in') => {
    const body = { ...WEBHOOK_BODY, url: receiver.url(path), event_types: ['inference.task.succeeded'] }
    const created = await on.create(body)
    await on.activate(created.id)
    return created
  }
  const worker = (change: Partial<WebhookDeps> = {}) => {
    const { config, db, secretBox } = on.api.services
    const log = createLogger('test', config.HEARTH_LOG_LEVEL)
    return createWebhookActivities({ config, db, secretBox, sender, log, now: () => new Date(), ...change })
  }
  /** Runs one shift of 300 ms, which processes pending deliveries. */
  const shift = (activities = worker()) =>
    new MockActivityEnvironment({ startToCloseTimeoutMs: 600 }).run(activities.dispatchWebhooks)
  const readDelivery = async (query = '') => (await on.listed(query))[0]
  const becomes = (status: string) => until(async () => (await readDelivery())?.status === status)

  it('ends its shift while a destination hangs, and records the outcome later', async () => {
    await destination()
    await on.emit()

    await shift()
    const { status, next_attempt_at } = await readDelivery()
    assert.deepEqual([status, next_attempt_at], ['delivering', null])
    open[0]?.end()

    await becomes('succeeded')
  })

  it('remembers in its next shift which destinations hang', async () => {
    await destination()
    const activities = worker()
    answer = (res) => res.writeHead(500).end()
    await on.emit()
    await shift(activities)
    await becomes('retrying')
    answer = (res) => open.push(res)
    for (let n = 0; n < 8; n++) await on.emit()

    await shift(activities)

    assert.equal(open.length, 4)
    for (const res of open) res.end()
    await until(async () => (await on.listed('?status=delivering')).length === 0)
  })

  it('aborts its in-flight deliveries when its worker shuts down, and records that immediately', async () => {
    await destination()
    await on.emit()
    const environment = new MockActivityEnvironment({ startToCloseTimeoutMs: 60_000 })
    const shifting = environment.run(worker().dispatchWebhooks)
    await until(() => open.length === 1)

    environment.cancel('WORKER_SHUTDOWN')
    await shifting

    const { delivery_id: id, status } = await readDelivery()
    const { body } = await on.call('GET', `${DELIVERIES}/${id}`)
    assert.equal(status, 'retrying')
    assert.deepEqual(
      body.attempts.map((one: { outcome: string }) => one.outcome),
      ['interrupted'],
    )
  })

  it('disables a destination that answers 410, and cancels its other deliveries', async () => {
    const { path } = await destination()
    await on.emit()
    await shift()
    await on.emit()
    open[0]?.writeHead(410).end()

    await until(async () => !(await on.call('GET', path)).body.enabled)
    const statuses = (await on.listed()).map((one: { status: string }) => one.status)
    assert.deepEqual(statuses, ['cancelled', 'failed'])
  })

  it('delivers to the destination that replaced one answering 410', async () => {
    const { id, path } = await destination()
    await on.emit()
    await shift()
    const { headers } = await on.call('GET', path)
    await on.call('PATCH', path, { url: receiver.url('/moved') }, ifMatch(headers['etag']))
    open[0]?.writeHead(410).end()

    await becomes('retrying')
    assert.equal((await on.call('GET', path)).body.enabled, true)
    const { delivery_id: delivery, next_attempt_at: due } = await readDelivery()
    assert.ok(due)
    const read = (await on.call('GET', `${DELIVERIES}/${delivery}`)).body
    const attempts = read.attempts.map((one: { outcome: string; error_code: string }) => one)
    assert.deepEqual([attempts[0].outcome, attempts[0].error_code], ['retryable', 'gone'])

    await on.activate(id)
    const later = worker({ now: () => new Date(Date.parse(due) + 1_000) })
    const going = new MockActivityEnvironment().run(() => later.attemptWebhook(delivery, 2))
    await until(() => open.length === 2)
    assert.equal(open[1]?.req.url, '/moved')
    open[1]?.end()
    await going

    assert.equal((await readDelivery()).status, 'succeeded')
  })

  it('never reports a negative duration when its clock is set back', async () => {
    await destination()
    await on.emit()
    let offset = 0
    const activities = worker({ now: () => new Date(Date.now() + offset) })
    await shift(activities)
    offset = -3_600_000
    open[0]?.end()
    await becomes('succeeded')

    const { body } = await on.call('GET', `${DELIVERIES}/${(await readDelivery()).delivery_id}`)

    assert.equal(body.attempts[0].duration_ms, 0)
  })

  it("sends nothing that it can't sign", async () => {
    const { id } = await destination()
    await on.api.database.db.deleteFrom('webhook_secret').where('endpoint_id', '=', id).execute()
    await on.emit()

    await shift()

    await becomes('retrying')
    assert.equal(open.length, 0)
  })

  it('cancels the deliveries of a disabled endpoint instead of planning another attempt', async () => {
    const { id } = await destination()
    await on.emit()
    const { db } = on.api.database
    const { delivery_id: delivery } = await readDelivery()
    await db
      .updateTable('webhook_delivery')
      .set({ status: 'retrying', attempts: 1, next_attempt_at: new Date() })
      .where('id', '=', delivery)
      .execute()
    await db.updateTable('webhook_endpoint').set({ enabled: false }).where('id', '=', id).execute()

    assert.deepEqual(await worker().planWebhookAttempt(delivery), { state: 'ended' })
    await shift()

    assert.equal((await readDelivery()).status, 'cancelled')
  })
})
