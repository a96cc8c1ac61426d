import { MockActivityEnvironment } from '@temporalio/testing'
import type { WebhookDeps } from '../../../activities/control/webhooks/deps.ts'
import {
  createWebhookActivities,
  type WebhookActivities,
} from '../../../activities/control/webhooks/index.ts'
import * as eventRepository from '../../../db/repositories/webhooks/events.ts'
import * as fanOutRepository from '../../../db/repositories/webhooks/fan-out.ts'
import { newId } from '../../../domain/ids.ts'
import { EgressPolicy } from '../../../platform/egress/policy.ts'
import { PublicSender } from '../../../platform/egress/public-sender.ts'
import { createLogger } from '../../../platform/log.ts'
import { until } from '../assertions/until.ts'
import { type AnyBody, startApi, type TestApi } from './api.ts'
import type { SkippingTemporal } from './temporal-time.ts'

const BASE = '/api/builder/v1'

/** A delivery as its owner reads it. */
export interface DeliveryView {
  status: string
  attempts: AnyBody[]
}

/** Deliveries that take days, on a gateway and a database that follow the clock of a time-skipping server. */
export class WebhookDays implements AsyncDisposable {
  readonly api: TestApi
  readonly deps: WebhookDeps
  readonly accountId: string
  readonly key: string
  readonly #temporal: SkippingTemporal
  readonly #sender: PublicSender
  #clock = Date.now()

  private constructor(
    api: TestApi,
    temporal: SkippingTemporal,
    { sender, owner }: { sender: PublicSender; owner: { accountId: string; key: string } },
  ) {
    this.api = api
    this.#temporal = temporal
    this.#sender = sender
    this.accountId = owner.accountId
    this.key = owner.key
    const { config, db, secretBox } = api.services
    const now = () => new Date(this.#clock)
    Object.assign(api.services, { now })
    this.deps = { config, db, secretBox, sender, now, log: createLogger('test', config.HEARTH_LOG_LEVEL) }
  }

  static async start(temporal: SkippingTemporal, ports: readonly number[]): Promise<WebhookDays> {
    const allow = ports.map((port) => `127.0.0.0/8:${port}`)
    const api = await startApi({ config: { HEARTH_FEATURES: ['webhooks'], HEARTH_EGRESS_ALLOW: allow } })
    const sender = new PublicSender(new EgressPolicy({ allow, block: [] }), async () => ['127.0.0.1'])
    return new WebhookDays(api, temporal, { sender, owner: await api.account() })
  }

  call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
    return this.api.call(method, BASE + path, {
      key: this.key,
      headers,
      ...(body !== undefined && { body }),
    })
  }

  /** Creates an endpoint and marks it as verified. */
  async endpoint(url: string): Promise<{ id: string; secret: string }> {
    const { body } = await this.call('POST', '/webhook-endpoints', {
      name: 'days',
      url,
      event_types: ['training.run.failed'],
    })
    await this.deps.db
      .updateTable('webhook_endpoint')
      .set({ verification_status: 'active' })
      .where('id', '=', body.endpoint_id)
      .execute()
    return { id: body.endpoint_id, secret: body.secret }
  }

  async patch(endpointId: string, change: object): Promise<void> {
    const path = `/webhook-endpoints/${endpointId}`
    const { headers } = await this.call('GET', path)
    await this.call('PATCH', path, change, { 'if-match': String(headers['etag']) })
  }

  /** Emits an event; returns its delivery. */
  async emit(endpointId: string): Promise<string> {
    const id = newId()
    const { db } = this.deps
    await this.#tick()
    const resource = { id, object: 'training.run', status: 'failed' }
    const event = { accountId: this.accountId, type: 'training.run.failed', resource, resourceUrl: '/x' }
    await eventRepository.insertEvents(db, [event], this.deps.now())
    await fanOutRepository.fanOutEvents(db)
    const { id: deliveryId } = await db
      .selectFrom('webhook_delivery')
      .select('id')
      .where('endpoint_id', '=', endpointId)
      .where('status', '=', 'pending')
      .executeTakeFirstOrThrow()
    // The database's own clock does not skip.
    await db
      .updateTable('webhook_delivery')
      .set({
        created_at: this.deps.now(),
        next_attempt_at: this.deps.now(),
        deadline_at: new Date(this.#clock + 48 * 3_600_000),
      })
      .where('id', '=', deliveryId)
      .execute()
    return deliveryId
  }

  /** Makes all first attempts that are due. */
  async dispatch(): Promise<void> {
    await this.#tick()
    const environment = new MockActivityEnvironment({ startToCloseTimeoutMs: 400 })
    await environment.run(createWebhookActivities(this.deps).dispatchWebhooks)
    const underWay = () =>
      this.deps.db
        .selectFrom('webhook_delivery')
        .select('id')
        .where('status', 'in', ['pending', 'delivering'])
        .execute()
    await until(async () => (await underWay()).length === 0)
  }

  /** Makes the later attempts until the delivery ends; calls `before` ahead of each. */
  async follow(
    deliveryId: string,
    before: (attempt: number) => Promise<unknown> = async () => {},
  ): Promise<DeliveryView> {
    const activities = createWebhookActivities(this.deps)
    const onTime = Object.fromEntries(
      Object.entries(activities as Record<string, (...args: never[]) => Promise<unknown>>).map(
        ([name, activity]) => [
          name,
          async (...args: never[]) => {
            await this.#tick()
            return activity(...args)
          },
        ],
      ),
    )
    const attemptWebhook: WebhookActivities['attemptWebhook'] = async (id, attempt) => {
      await this.#tick()
      await before(attempt)
      return activities.attemptWebhook(id, attempt)
    }
    await this.#temporal.run('webhookDelivery', [{ deliveryId }], { ...onTime, attemptWebhook })
    await this.#tick()
    return this.readDelivery(deliveryId)
  }

  async readDelivery(deliveryId: string): Promise<DeliveryView> {
    return (await this.call('GET', `/webhook-deliveries/${deliveryId}`)).body
  }

  /** Returns the start of each attempt, in seconds since the delivery was created. */
  async offsets(deliveryId: string): Promise<number[]> {
    const { body } = await this.call('GET', `/webhook-deliveries/${deliveryId}`)
    const began = Date.parse(body.created_at)
    return body.attempts.map((one: AnyBody) => Math.round((Date.parse(one.started_at) - began) / 1000))
  }

  async #tick(): Promise<void> {
    this.#clock = await this.#temporal.now()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#sender[Symbol.asyncDispose]()
    await this.api[Symbol.asyncDispose]()
  }
}
