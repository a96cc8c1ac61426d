import assert from 'node:assert/strict'
import * as eventRepository from '../../../db/repositories/webhooks/events.ts'
import * as fanOutRepository from '../../../db/repositories/webhooks/fan-out.ts'
import { newId } from '../../../domain/ids.ts'
import type { Config } from '../../../platform/config.ts'
import { type Call, startApi, type TestApi } from '../servers/api.ts'

export const ENDPOINTS = '/api/builder/v1/webhook-endpoints'
export const DELIVERIES = '/api/builder/v1/webhook-deliveries'
export const WEBHOOK_BODY = {
  name: 'mine',
  url: 'https://hooks.hearth-user.com/in?token=hidden',
  event_types: ['inference.task.succeeded', 'training.run.completed'],
}

export const ifMatch = (etag: unknown): Call => ({ headers: { 'if-match': String(etag) } })

/** The webhook routes of one account, without a delivery worker. */
export class WebhookRoutes {
  readonly api: TestApi
  accountId = ''
  key = ''

  constructor(api: TestApi) {
    this.api = api
  }

  static async start(config: Partial<Config> = {}): Promise<WebhookRoutes> {
    return new WebhookRoutes(await startApi({ config: { HEARTH_FEATURES: ['webhooks'], ...config } }))
  }

  async newAccount(): Promise<void> {
    Object.assign(this, await this.api.account())
  }

  call(method: string, path: string, body?: unknown, options: Call = {}) {
    return this.api.call(method, path, { key: this.key, ...(body !== undefined && { body }), ...options })
  }

  async create(body: object = WEBHOOK_BODY) {
    const answer = await this.call('POST', ENDPOINTS, body)
    assert.equal(answer.status, 201, answer.text)
    const id = String(answer.body.endpoint_id)
    return { ...answer, id, path: `${ENDPOINTS}/${id}` }
  }

  /** Marks an endpoint as verified. */
  activate(id: string) {
    return this.api.database.db
      .updateTable('webhook_endpoint')
      .set({ verification_status: 'active' })
      .where('id', '=', id)
      .execute()
  }

  async emit(type = 'inference.task.succeeded'): Promise<void> {
    const id = newId()
    const resource = { id, object: 'inference.task', status: 'succeeded' }
    const event = { accountId: this.accountId, type, resource, resourceUrl: `/api/builder/v1/tasks/${id}` }
    await eventRepository.insertEvents(this.api.database.db, [event], new Date())
    await fanOutRepository.fanOutEvents(this.api.database.db)
  }

  async listed(query = '') {
    return (await this.call('GET', DELIVERIES + query)).body.deliveries
  }

  /** Marks a delivery as delivered. */
  end(deliveryId: string) {
    return this.api.database.db
      .updateTable('webhook_delivery')
      .set({ status: 'succeeded', completed_at: new Date(), next_attempt_at: null })
      .where('id', '=', deliveryId)
      .execute()
  }
}
