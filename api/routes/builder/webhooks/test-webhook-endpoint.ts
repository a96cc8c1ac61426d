import * as deliveryRepository from '../../../../db/repositories/webhooks/deliveries.ts'
import * as webhookEndpointRepository from '../../../../db/repositories/webhooks/endpoints.ts'
import * as eventRepository from '../../../../db/repositories/webhooks/events.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { newId } from '../../../../domain/ids.ts'
import { TEST_EVENT, WebhookEndpointParams, WebhookTestQueued } from '../../../../schemas/webhook.ts'
import { route } from '../../../http/route.ts'
import { noWebhookEndpoint } from './present.ts'

export const testWebhookEndpoint = route({
  operationId: 'testWebhookEndpoint',
  summary: 'Queue a signed webhook.test event to a destination',
  method: 'POST',
  path: '/webhook-endpoints/{endpoint_id}/test',
  auth: 'api-key',
  role: 'operator',
  preview: 'webhooks',
  idempotent: true,
  params: WebhookEndpointParams,
  success: { status: 202, schema: WebhookTestQueued },
  errors: ['not_found', 'conflict'],

  async handler({ caller: { accountId }, params, trx }, { now }) {
    const endpoint = await webhookEndpointRepository.lockWebhookEndpoint(trx, accountId, params.endpoint_id)
    if (!endpoint) throw noWebhookEndpoint()
    if (!endpoint.enabled || endpoint.verification_status !== 'active') {
      throw new ApiError('conflict', 'only an enabled and verified endpoint receives events')
    }

    const at = now()
    const event = eventRepository.freezeEvent(
      {
        accountId,
        type: TEST_EVENT,
        resource: { id: newId(), object: 'webhook.test', status: 'sent' },
        resourceUrl: `/api/builder/v1/webhook-endpoints/${endpoint.id}`,
      },
      at,
    )
    await eventRepository.insertFrozenEvents(trx, [event])
    const delivery = await deliveryRepository.insertWebhookDelivery(trx, {
      accountId,
      endpointId: endpoint.id,
      eventId: event.id,
      eventType: TEST_EVENT,
      now: at,
    })
    return { delivery_id: delivery.id, event_id: delivery.event_id, status: delivery.status }
  },
})
