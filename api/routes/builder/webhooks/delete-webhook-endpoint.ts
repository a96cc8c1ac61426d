import * as deliveryEndingRepository from '../../../../db/repositories/webhooks/endings.ts'
import * as webhookEndpointRepository from '../../../../db/repositories/webhooks/endpoints.ts'
import { WebhookEndpointParams } from '../../../../schemas/webhook.ts'
import { checkIfMatch } from '../../../http/etag.ts'
import { reply } from '../../../http/reply.ts'
import { route } from '../../../http/route.ts'
import { noWebhookEndpoint, tagOfWebhookEndpoint } from './present.ts'

export const deleteWebhookEndpoint = route({
  operationId: 'deleteWebhookEndpoint',
  summary: 'Disable and delete a destination; its open deliveries are cancelled',
  method: 'DELETE',
  path: '/webhook-endpoints/{endpoint_id}',
  auth: 'api-key',
  role: 'admin',
  preview: 'webhooks',
  ifMatch: true,
  params: WebhookEndpointParams,
  success: { status: 204 },
  errors: ['not_found'],

  async handler(request, { db, now }) {
    const { caller, params } = request
    await db.transaction().execute(async (trx) => {
      const endpoint = await webhookEndpointRepository.lockWebhookEndpoint(
        trx,
        caller.accountId,
        params.endpoint_id,
      )
      if (!endpoint) throw noWebhookEndpoint()
      checkIfMatch(request, tagOfWebhookEndpoint(endpoint))

      await webhookEndpointRepository.updateWebhookEndpoint(trx, endpoint.id, {
        enabled: false,
        deleted_at: now(),
      })
      await webhookEndpointRepository.removeWebhookSecrets(trx, endpoint.id)
      await webhookEndpointRepository.supersedeVerifications(trx, endpoint.id)
      await deliveryEndingRepository.cancelDeliveries(trx, endpoint.id)
    })
    return reply(204)
  },
})
