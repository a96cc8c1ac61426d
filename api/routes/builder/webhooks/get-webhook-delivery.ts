import * as deliveryRepository from '../../../../db/repositories/webhooks/deliveries.ts'
import { WebhookDeliveryDetail, WebhookDeliveryParams } from '../../../../schemas/webhook.ts'
import { route } from '../../../http/route.ts'
import { noWebhookDelivery, presentWebhookAttempt, presentWebhookDelivery } from './present.ts'

export const getWebhookDelivery = route({
  operationId: 'getWebhookDelivery',
  summary: 'Read a delivery with the history of its attempts',
  method: 'GET',
  path: '/webhook-deliveries/{delivery_id}',
  auth: 'api-key',
  preview: 'webhooks',
  params: WebhookDeliveryParams,
  success: { status: 200, schema: WebhookDeliveryDetail },
  errors: ['not_found'],

  async handler({ caller, params }, { db }) {
    const delivery = await deliveryRepository.findWebhookDelivery(db, caller.accountId, params.delivery_id)
    if (!delivery) throw noWebhookDelivery()
    const attempts = await deliveryRepository.listWebhookAttempts(db, delivery.id)
    return { ...presentWebhookDelivery(delivery), attempts: attempts.map(presentWebhookAttempt) }
  },
})
