import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import * as eventRepository from '../../../db/repositories/webhooks/events.ts'
import { newId } from '../../../domain/ids.ts'
import { EgressPolicy } from '../../../platform/egress/policy.ts'
import { PublicSender } from '../../../platform/egress/public-sender.ts'
import type { WebhookPlatform } from '../builders/webhooks.ts'
import type { AnyBody } from '../servers/api.ts'

const BASE = '/api/builder/v1'
const TIMEOUT_MS = 60_000

/** An account on a platform with webhooks: creates endpoints and events, and reads the deliveries. */
export class WebhookProbe {
  readonly #platform: WebhookPlatform
  readonly #owner: { accountId: string; key: string }

  private constructor(platform: WebhookPlatform, owner: { accountId: string; key: string }) {
    this.#platform = platform
    this.#owner = owner
  }

  static async of(platform: WebhookPlatform): Promise<WebhookProbe> {
    return new WebhookProbe(platform, await platform.api.account())
  }

  call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
    return this.#platform.api.call(method, BASE + path, {
      key: this.#owner.key,
      headers,
      ...(body !== undefined && { body }),
    })
  }

  /** Creates an endpoint and marks it as verified, whatever its response to the challenge. */
  async endpoint(url: string): Promise<{ id: string; secret: string }> {
    const { status, body, text } = await this.call('POST', '/webhook-endpoints', {
      name: 'probed',
      url,
      event_types: ['inference.task.succeeded'],
    })
    assert.equal(status, 201, text)
    await this.#platform.deps.db
      .updateTable('webhook_endpoint')
      .set({ verification_status: 'active' })
      .where('id', '=', body.endpoint_id)
      .execute()
    return { id: body.endpoint_id, secret: body.secret }
  }

  async emit(): Promise<void> {
    const id = newId()
    const resource = { id, object: 'inference.task', status: 'succeeded' }
    await eventRepository.insertEvents(
      this.#platform.deps.db,
      [
        {
          accountId: this.#owner.accountId,
          type: 'inference.task.succeeded',
          resource,
          resourceUrl: `${BASE}/tasks/${id}`,
        },
      ],
      new Date(),
    )
  }

  /** Emits an event, and returns its delivery to an endpoint that had no deliveries before. */
  async emitOne(endpointId: string): Promise<string> {
    await this.emit()
    return this.deliveryTo(endpointId)
  }

  /** Returns the only delivery to an endpoint. */
  async deliveryTo(endpointId: string): Promise<string> {
    let id: string | undefined
    await this.until('the delivery', async () => {
      const row = await this.#platform.deps.db
        .selectFrom('webhook_delivery')
        .select('id')
        .where('endpoint_id', '=', endpointId)
        .executeTakeFirst()
      id = row?.id
      return id !== undefined
    })
    return id ?? ''
  }

  /** Creates a delivery whose sender died during the first attempt. */
  async diedSending(endpointId: string): Promise<string> {
    const { db } = this.#platform.deps
    return db.transaction().execute(async (trx) => {
      const eventId = newId()
      await trx
        .insertInto('event')
        .values({
          id: eventId,
          account_id: this.#owner.accountId,
          type: 'webhook.test',
          resource_id: newId(),
          payload: Buffer.from('{}'),
          created_at: new Date(),
        })
        .execute()
      const delivery = newId()
      const past = new Date(Date.now() - 60_000)
      await trx
        .insertInto('webhook_delivery')
        .values({
          id: delivery,
          account_id: this.#owner.accountId,
          endpoint_id: endpointId,
          event_id: eventId,
          event_type: 'webhook.test',
          status: 'delivering',
          attempts: 1,
          next_attempt_at: past,
          deadline_at: new Date(Date.now() + 86_400_000),
          created_at: past,
        })
        .execute()
      await trx
        .insertInto('webhook_attempt')
        .values({ delivery_id: delivery, number: 1, started_at: past })
        .execute()
      return delivery
    })
  }

  /** Puts a delivery into the state after a failed first attempt and the loss of its workflow. */
  async waiting(deliveryId: string): Promise<void> {
    const { db } = this.#platform.deps
    await db
      .updateTable('webhook_attempt')
      .set({ outcome: 'retryable', error_code: 'http_500', finished_at: new Date() })
      .where('delivery_id', '=', deliveryId)
      .execute()
    await db
      .updateTable('webhook_delivery')
      .set({ status: 'retrying', next_attempt_at: new Date(Date.now() + 3_600_000) })
      .where('id', '=', deliveryId)
      .execute()
  }

  async readDelivery(deliveryId: string): Promise<AnyBody> {
    return (await this.call('GET', `/webhook-deliveries/${deliveryId}`)).body
  }

  /** Waits until the delivery has this status and returns it. */
  async ended(deliveryId: string, status: string): Promise<AnyBody> {
    await this.until(status, async () => (await this.readDelivery(deliveryId)).status === status)
    return this.readDelivery(deliveryId)
  }

  /** Returns a sender for which every name resolves to one address. */
  resolvingTo(address: string): PublicSender {
    return new PublicSender(
      new EgressPolicy({ allow: this.#platform.deps.config.HEARTH_EGRESS_ALLOW, block: [] }),
      async () => [address],
    )
  }

  async until(what: string, look: () => Promise<boolean>): Promise<void> {
    for (const since = Date.now(); !(await look()); await sleep(30))
      assert.ok(Date.now() - since < TIMEOUT_MS, `in time: ${what}`)
  }
}
