import * as webhookEndpointRepository from '../../../../db/repositories/webhooks/endpoints.ts'
import { WebhookEndpoint, WebhookEndpointParams } from '../../../../schemas/webhook.ts'
import { reply } from '../../../http/reply.ts'
import { route } from '../../../http/route.ts'
import { noWebhookEndpoint, presentWebhookEndpoint, tagOfWebhookEndpoint } from './present.ts'

export const getWebhookEndpoint = route({
  operationId: 'getWebhookEndpoint',
  summary: 'Read a destination, redacted, with its ETag',
  method: 'GET',
  path: '/webhook-endpoints/{endpoint_id}',
  auth: 'api-key',
  preview: 'webhooks',
  etag: true,
  params: WebhookEndpointParams,
  success: { status: 200, schema: WebhookEndpoint },
  errors: ['not_found'],

  async handler({ caller, params }, { db }) {
    const endpoint = await webhookEndpointRepository.findWebhookEndpoint(
      db,
      caller.accountId,
      params.endpoint_id,
    )
    if (!endpoint) throw noWebhookEndpoint()
    return reply(200, presentWebhookEndpoint(endpoint), { etag: tagOfWebhookEndpoint(endpoint) })
  },
})
