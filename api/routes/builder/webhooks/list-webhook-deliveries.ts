import * as deliveryRepository from '../../../../db/repositories/webhooks/deliveries.ts'
import { WebhookDeliveryList, WebhookDeliveryQuery } from '../../../../schemas/webhook.ts'
import { readSortedPage } from '../../../http/page.ts'
import { route } from '../../../http/route.ts'
import { presentWebhookDelivery } from './present.ts'

export const listWebhookDeliveries = route({
  operationId: 'listWebhookDeliveries',
  summary: 'List deliveries without their attempts',
  method: 'GET',
  path: '/webhook-deliveries',
  auth: 'api-key',
  preview: 'webhooks',
  query: WebhookDeliveryQuery,
  success: { status: 200, schema: WebhookDeliveryList },

  async handler({ caller: { accountId }, query }, { db }) {
    const { endpoint_id: endpointId, status, event_type: eventType } = query
    const scope = ['webhook-deliveries', accountId, endpointId, status, eventType]
    const page = await readSortedPage(query, scope, (request) =>
      deliveryRepository.listWebhookDeliveries(db, accountId, {
        ...request,
        ...(endpointId !== undefined && { endpointId }),
        ...(status !== undefined && { status }),
        ...(eventType !== undefined && { eventType }),
      }),
    )
    return { deliveries: page.items.map(presentWebhookDelivery), next_cursor: page.next_cursor }
  },
})
