import * as deliveryEndingRepository from '../../../../db/repositories/webhooks/endings.ts'
import * as webhookEndpointRepository from '../../../../db/repositories/webhooks/endpoints.ts'
import { UpdateWebhookEndpoint, WebhookEndpoint, WebhookEndpointParams } from '../../../../schemas/webhook.ts'
import { checkIfMatch } from '../../../http/etag.ts'
import { reply } from '../../../http/reply.ts'
import { route } from '../../../http/route.ts'
import { sealUrl, startVerification } from './destination.ts'
import { noWebhookEndpoint, presentWebhookEndpoint, tagOfWebhookEndpoint } from './present.ts'

export const updateWebhookEndpoint = route({
  operationId: 'updateWebhookEndpoint',
  summary:
    'Change a destination; setting its URL (even to the same value) or enabling it again restarts its verification',
  method: 'PATCH',
  path: '/webhook-endpoints/{endpoint_id}',
  auth: 'api-key',
  role: 'admin',
  preview: 'webhooks',
  ifMatch: true,
  etag: true,
  params: WebhookEndpointParams,
  body: UpdateWebhookEndpoint,
  success: { status: 200, schema: WebhookEndpoint },
  errors: ['not_found', 'rate_limited'],

  async handler(request, services) {
    const { caller, params, body } = request
    const { url, ...changes } = body
    const changed = await services.db.transaction().execute(async (trx) => {
      const endpoint = await webhookEndpointRepository.lockWebhookEndpoint(
        trx,
        caller.accountId,
        params.endpoint_id,
      )
      if (!endpoint) throw noWebhookEndpoint()
      checkIfMatch(request, tagOfWebhookEndpoint(endpoint))

      const isEnabled = body.enabled ?? endpoint.enabled
      const isEnabledAgain = isEnabled && !endpoint.enabled
      const newDestination = url !== undefined || isEnabledAgain
      const row = await webhookEndpointRepository.updateWebhookEndpoint(
        trx,
        endpoint.id,
        {
          ...changes,
          ...(url !== undefined && sealUrl(services, endpoint.id, url)),
          ...(isEnabledAgain && { disabled_reason: null }),
          ...(newDestination && { verification_status: 'pending_verification' }),
        },
        { newDestination },
      )
      if (!isEnabled) {
        await webhookEndpointRepository.supersedeVerifications(trx, row.id)
        await deliveryEndingRepository.cancelDeliveries(trx, row.id)
      } else if (newDestination) {
        await deliveryEndingRepository.cancelPinnedDeliveries(trx, row.id)
        await startVerification(trx, row, services)
      }
      return row
    })
    services.outbox.poke()
    return reply(200, presentWebhookEndpoint(changed), { etag: tagOfWebhookEndpoint(changed) })
  },
})
