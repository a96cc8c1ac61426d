import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { ApplicationFailure } from '@temporalio/common'
import { pino } from 'pino'
import { createReconcileActivities } from '../../../activities/control/housekeeping/reconcile.ts'
import type { WebhookActivities } from '../../../activities/control/webhooks/index.ts'
import { WORKFLOW_ID } from '../../../workflows/contract/policy.ts'
import { type WebhookHandler, answerWith, ANSWERS } from '../../support/assertions/answers.ts'
import { recordHistory } from '../../support/assertions/histories.ts'
import { WebhookProbe } from '../../support/assertions/webhook-probe.ts'
import { startWebhookPlatform, type WebhookPlatform } from '../../support/builders/webhooks.ts'
import { type Receiver, startReceiver } from '../../support/servers/receiver.ts'

describe('webhookDelivery', () => {
  let receiver: Receiver
  let stranger: Receiver
  let platform: WebhookPlatform
  let on: WebhookProbe
  let behaviour: WebhookHandler = answerWith(200)
  const wraps: ((activities: WebhookActivities) => object)[] = []
  before(async () => {
    // Challenges go unanswered: the destinations count as verified anyway.
    receiver = await startReceiver((req, res, body) =>
      body.includes('verification_challenge') ? res.writeHead(404).end() : behaviour(req, res),
    )
    stranger = await startReceiver((_req, res) => res.end(), { trusted: false })
    platform = await startWebhookPlatform([receiver.port, stranger.port], (activities) =>
      // Looks up each function at every call, so that a test can replace it.
      Object.fromEntries(
        Object.keys(activities).map((name) => [
          name,
          (...args: never[]) => {
            const wrapped = wraps.reduce(
              (inner, wrap) => wrap(inner as WebhookActivities),
              activities as object,
            )
            return (wrapped as Record<string, (...given: never[]) => Promise<unknown>>)[name]?.(...args)
          },
        ]),
      ),
    )
  })
  after(async () => {
    await platform?.[Symbol.asyncDispose]()
    await receiver?.[Symbol.asyncDispose]()
    await stranger?.[Symbol.asyncDispose]()
  })
  beforeEach(async () => {
    wraps.length = 0
    on = await WebhookProbe.of(platform)
  })

  const workflow = (deliveryId: string) =>
    platform.temporal.client.workflow.getHandle(WORKFLOW_ID.delivery(deliveryId))
  const there = async (deliveryId: string) => {
    await on.until('the workflow', () =>
      workflow(deliveryId)
        .describe()
        .then(({ status: { name } }) => name === 'RUNNING')
        .catch(() => false),
    )
    return workflow(deliveryId)
  }
  const retried = async () => {
    behaviour = answerWith(500)
    const { id } = await on.endpoint(receiver.url('/in'))
    const delivery = await on.emitOne(id)
    await on.ended(delivery, 'retrying')
    return { delivery, handle: await there(delivery) }
  }

  for (const [what, does, expected] of ANSWERS) {
    it(`reports the outcome when the destination ${what}`, async () => {
      behaviour = does
      const { id } = await on.endpoint(receiver.url('/in'))

      const delivery = await on.emitOne(id)
      const endedDelivery = await on.ended(delivery, expected[0])

      const [{ outcome, error_code, status_class }] = endedDelivery.attempts
      assert.deepEqual([endedDelivery.status, outcome, error_code, status_class], expected)
      assert.ok(
        !JSON.stringify(endedDelivery).includes('whsec_body'),
        'no part of the response may be stored',
      )
    })
  }

  it('reports untrusted TLS and names that resolve to private addresses with an error code', async () => {
    const untrusted = await on.endpoint(stranger.url('/in'))
    const first = await on.ended(await on.emitOne(untrusted.id), 'retrying')
    assert.equal(first.attempts[0].error_code, 'tls_failed')

    const { sender } = platform.deps
    Object.assign(platform.deps, { sender: on.resolvingTo('10.0.0.7') })
    try {
      const inside = await on.endpoint(receiver.url('/in'))
      const second = await on.ended(await on.emitOne(inside.id), 'retrying')
      assert.equal(second.attempts[0].error_code, 'address_not_allowed')
    } finally {
      Object.assign(platform.deps, { sender })
    }
  })

  it('continues after a failure, shows what it is waiting for, and keeps secrets out of its history', async () => {
    const { delivery, handle } = await retried()
    const about = await handle.describe()
    assert.equal(about.searchAttributes['HearthKind']?.[0], 'webhook-delivery')
    behaviour = answerWith(204)
    await handle.signal('retry_now')

    const endedDelivery = await on.ended(delivery, 'succeeded')

    assert.deepEqual(
      endedDelivery.attempts.map(({ attempt, outcome }: Record<string, unknown>) => [attempt, outcome]),
      [
        [1, 'retryable'],
        [2, 'succeeded'],
      ],
    )
    await handle.result()
    const history = JSON.stringify(await handle.fetchHistory())
    for (const secret of ['whsec_', 'receiver.test', 'verification_challenge'])
      assert.ok(!history.includes(secret))
    await recordHistory('webhook-delivery-succeeded', handle)
  })

  it('ends as cancelled when an operator cancels it', async () => {
    const { delivery, handle } = await retried()

    await handle.cancel()
    await assert.rejects(handle.result())

    assert.equal((await on.readDelivery(delivery)).status, 'cancelled')
    await recordHistory('webhook-delivery-cancelled', handle)
  })

  it('ends as cancelled when an operator terminates it, and is restarted when it was lost', async () => {
    const ended = await retried()
    const reconcile = createReconcileActivities({
      ...platform.api.services,
      temporal: platform.temporal.client,
    })
    assert.deepEqual(await reconcile.reconcileDeliveries(null), {
      next: null,
      ended: 0,
      restarted: 0,
      failed: 0,
    })

    await ended.handle.terminate('by hand')
    const unknown = await on.diedSending((await on.endpoint(receiver.url('/in'))).id)
    await on.waiting(unknown)
    const swept = await reconcile.reconcileDeliveries(null)

    assert.deepEqual([swept.ended, swept.restarted], [1, 1])
    assert.equal((await on.readDelivery(ended.delivery)).status, 'cancelled')
    await there(unknown)
  })

  it('makes each attempt once although every activity runs twice', async () => {
    let requests = 0
    behaviour = (_req, res) => {
      requests++
      res.writeHead(requests < 3 ? 500 : 204).end()
    }
    wraps.push((activities) => ({
      ...activities,
      attemptWebhook: async (id: string, attempt: number) => {
        await activities.attemptWebhook(id, attempt)
        return activities.attemptWebhook(id, attempt)
      },
      planWebhookAttempt: async (id: string) => {
        await activities.planWebhookAttempt(id)
        return activities.planWebhookAttempt(id)
      },
    }))
    const { id } = await on.endpoint(receiver.url('/in'))
    const delivery = await on.emitOne(id)
    await on.ended(delivery, 'retrying')
    const handle = await there(delivery)
    await handle.signal('retry_now')
    await on.until('the second attempt', async () => (await on.readDelivery(delivery)).attempts.length === 2)
    await on.ended(delivery, 'retrying')
    await handle.signal('retry_now')

    const endedDelivery = await on.ended(delivery, 'succeeded')

    assert.equal(requests, 3)
    assert.deepEqual(
      endedDelivery.attempts.map(({ attempt }: { attempt: number }) => attempt),
      [1, 2, 3],
    )
  })

  for (const broken of ['attemptWebhook', 'planWebhookAttempt'] as const) {
    it(`fails visibly for operators when ${broken} fails permanently, and closes its delivery`, async () => {
      const fault = ApplicationFailure.nonRetryable('broken for good')
      wraps.push((activities) => ({ ...activities, [broken]: () => Promise.reject(fault) }))
      behaviour = answerWith(500)
      const { id } = await on.endpoint(receiver.url('/in'))
      const delivery = await on.emitOne(id)
      await on.ended(delivery, 'retrying')
      await on.until('the end of the workflow', async () => {
        await workflow(delivery)
          .signal('retry_now')
          .catch(() => undefined)
        return workflow(delivery)
          .describe()
          .then(({ status: { name } }) => name === 'FAILED')
          .catch(() => false)
      })

      const reconcile = createReconcileActivities({
        ...platform.api.services,
        temporal: platform.temporal.client,
      })
      await reconcile.reconcileDeliveries(null)

      assert.equal((await on.readDelivery(delivery)).status, 'cancelled')
    })
  }

  it("delivers to other endpoints despite a secret that can't be decrypted, and logs no secrets", async () => {
    const { log } = platform.deps
    const lines: string[] = []
    Object.assign(platform.deps, { log: pino({ level: 'trace' }, { write: (line) => lines.push(line) }) })
    try {
      behaviour = answerWith(204)
      const broken = await on.endpoint(receiver.url('/in?token=hidden'))
      const untrusted = await on.endpoint(stranger.url('/in?token=hidden'))
      await platform.deps.db
        .updateTable('webhook_secret')
        .set({ sealed: Buffer.alloc(60) })
        .where('endpoint_id', '=', broken.id)
        .execute()
      const other = await WebhookProbe.of(platform)
      const whole = await other.endpoint(receiver.url('/in?token=hidden'))

      await on.emit()
      await other.ended(await other.emitOne(whole.id), 'succeeded')

      const [first, second] = [await on.deliveryTo(broken.id), await on.deliveryTo(untrusted.id)]
      assert.equal((await on.ended(first, 'retrying')).attempts[0].error_code, 'internal')
      assert.equal((await on.ended(second, 'retrying')).attempts[0].error_code, 'tls_failed')
      assert.ok(lines.length > 0)
      for (const secret of ['token=hidden', 'whsec_', broken.secret, untrusted.secret, whole.secret])
        assert.ok(!lines.join('').includes(secret), secret)
    } finally {
      Object.assign(platform.deps, { log })
    }
  })

  it('closes an attempt as interrupted when its sender has died, and continues with the next number', async () => {
    behaviour = answerWith(204)
    const { id } = await on.endpoint(receiver.url('/in'))
    const delivery = await on.diedSending(id)

    const retrying = await on.ended(delivery, 'retrying')
    assert.deepEqual(
      [retrying.attempts[0].outcome, retrying.attempts[0].error_code],
      ['interrupted', 'interrupted'],
    )
    await (await there(delivery)).signal('retry_now')
    const endedDelivery = await on.ended(delivery, 'succeeded')

    assert.deepEqual(
      endedDelivery.attempts.map(({ attempt, outcome }: Record<string, unknown>) => [attempt, outcome]),
      [
        [1, 'interrupted'],
        [2, 'succeeded'],
      ],
    )
  })

  it('never lets a hanging destination delay others or use more than its share', async () => {
    let hanging = 0
    let most = 0
    let begun = 0
    let quick = 0
    behaviour = (req, res) => {
      if (req.url === '/quick') return void res.end(() => quick++)
      hanging++
      begun++
      most = Math.max(most, hanging)
      setTimeout(() => {
        hanging--
        res.end()
      }, 2_000)
    }
    await on.endpoint(receiver.url('/slow'))
    for (let n = 0; n < 60; n++) await on.emit()
    await sleep(300)
    const other = await WebhookProbe.of(platform)
    await other.endpoint(receiver.url('/quick'))
    for (let n = 0; n < 20; n++) await other.emit()

    await on.until('the quick deliveries', async () => quick === 20)

    assert.ok(begun < 60, 'the quick deliveries waited for every slow one')
    assert.ok(most <= 16, `${most} at once`)
  })
})
