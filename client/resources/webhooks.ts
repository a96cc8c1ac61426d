import type { Static } from 'typebox'
import type { PageQuery } from '../../schemas/common.ts'
import type {
  CreateWebhookEndpoint,
  RotateSecret,
  UpdateWebhookEndpoint,
  WebhookDeliveryDetail,
  WebhookDeliveryList,
  WebhookDeliveryQuery,
  WebhookEndpoint,
  WebhookEndpointList,
  WebhookEndpointWithSecret,
  WebhookRedelivery,
  WebhookTestQueued,
} from '../../schemas/webhook.ts'
import type { Operations } from '../operations.ts'

type EndpointId = [endpoint_id: string]
type DeliveryId = [delivery_id: string]

/** Webhook endpoints and their deliveries, if the platform has the `webhooks` feature. */
export function webhooks(on: Operations) {
  return {
    create: on.send<[], CreateWebhookEndpoint, Static<typeof WebhookEndpointWithSecret>>({
      id: 'createWebhookEndpoint',
      method: 'POST',
      path: '/webhook-endpoints',
      idempotent: true,
    }),
    list: on.list<[], PageQuery, Static<typeof WebhookEndpointList>, 'webhook_endpoints'>({
      id: 'listWebhookEndpoints',
      method: 'GET',
      path: '/webhook-endpoints',
      items: 'webhook_endpoints',
    }),
    get: on.call<EndpointId, WebhookEndpoint>({
      id: 'getWebhookEndpoint',
      method: 'GET',
      path: '/webhook-endpoints/{endpoint_id}',
    }),
    update: on.send<EndpointId, UpdateWebhookEndpoint, WebhookEndpoint>({
      id: 'updateWebhookEndpoint',
      method: 'PATCH',
      path: '/webhook-endpoints/{endpoint_id}',
      ifMatch: true,
    }),
    delete: on.call<EndpointId, void>({
      id: 'deleteWebhookEndpoint',
      method: 'DELETE',
      path: '/webhook-endpoints/{endpoint_id}',
      ifMatch: true,
    }),
    rotateSecret: on.send<EndpointId, Static<typeof RotateSecret>, Static<typeof WebhookEndpointWithSecret>>({
      id: 'rotateWebhookSecret',
      method: 'POST',
      path: '/webhook-endpoints/{endpoint_id}/rotate-secret',
      idempotent: true,
    }),
    test: on.call<EndpointId, Static<typeof WebhookTestQueued>>({
      id: 'testWebhookEndpoint',
      method: 'POST',
      path: '/webhook-endpoints/{endpoint_id}/test',
      idempotent: true,
    }),
    deliveries: on.list<
      [],
      Static<typeof WebhookDeliveryQuery>,
      Static<typeof WebhookDeliveryList>,
      'deliveries'
    >({
      id: 'listWebhookDeliveries',
      method: 'GET',
      path: '/webhook-deliveries',
      items: 'deliveries',
    }),
    getDelivery: on.call<DeliveryId, Static<typeof WebhookDeliveryDetail>>({
      id: 'getWebhookDelivery',
      method: 'GET',
      path: '/webhook-deliveries/{delivery_id}',
    }),
    redeliver: on.call<DeliveryId, Static<typeof WebhookRedelivery>>({
      id: 'redeliverWebhook',
      method: 'POST',
      path: '/webhook-deliveries/{delivery_id}/redeliver',
    }),
  }
}
