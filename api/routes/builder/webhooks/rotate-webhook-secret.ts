import * as webhookEndpointRepository from '../../../../db/repositories/webhooks/endpoints.ts'
import {
  RotateSecret,
  WebhookEndpointParams,
  WebhookEndpointWithSecret,
} from '../../../../schemas/webhook.ts'
import { reply } from '../../../http/reply.ts'
import { route } from '../../../http/route.ts'
import { makeSecret } from './destination.ts'
import { noWebhookEndpoint, presentWebhookEndpoint, tagOfWebhookEndpoint } from './present.ts'

export const rotateWebhookSecret = route({
  operationId: 'rotateWebhookSecret',
  summary: "Rotate a destination's signing secret; the new one is shown only once",
  method: 'POST',
  path: '/webhook-endpoints/{endpoint_id}/rotate-secret',
  auth: 'api-key',
  role: 'admin',
  preview: 'webhooks',
  idempotent: true,
  etag: true,
  params: WebhookEndpointParams,
  body: RotateSecret,
  success: { status: 200, schema: WebhookEndpointWithSecret },
  errors: ['not_found'],

  async handler({ caller, params, body, trx }, { secretBox, now }) {
    const { mode = 'graceful', overlap_s = 86_400 } = body
    const endpoint = await webhookEndpointRepository.lockWebhookEndpoint(
      trx,
      caller.accountId,
      params.endpoint_id,
    )
    if (!endpoint) throw noWebhookEndpoint()

    const isEmergency = mode === 'emergency'
    const { row, secret, hint } = makeSecret(secretBox, endpoint.id)
    await webhookEndpointRepository.insertWebhookSecret(trx, row)
    const at = now()
    await webhookEndpointRepository.retireWebhookSecrets(trx, endpoint.id, {
      current: row.id,
      now: at,
      until: new Date(at.getTime() + (isEmergency ? 0 : overlap_s * 1000)),
      revoke: isEmergency,
    })
    const changed = await webhookEndpointRepository.updateWebhookEndpoint(trx, endpoint.id, {
      secret_hint: hint,
    })
    return reply(200, { ...presentWebhookEndpoint(changed), secret }, { etag: tagOfWebhookEndpoint(changed) })
  },
})
