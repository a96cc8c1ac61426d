import * as webhookEndpointRepository from '../../../../db/repositories/webhooks/endpoints.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { newId } from '../../../../domain/ids.ts'
import { CreateWebhookEndpoint, WebhookEndpointWithSecret } from '../../../../schemas/webhook.ts'
import { reply } from '../../../http/reply.ts'
import { route } from '../../../http/route.ts'
import { makeSecret, sealUrl, startVerification } from './destination.ts'
import { presentWebhookEndpoint, tagOfWebhookEndpoint } from './present.ts'

export const createWebhookEndpoint = route({
  operationId: 'createWebhookEndpoint',
  summary: 'Add a destination for terminal events; its signing secret is shown only once',
  method: 'POST',
  path: '/webhook-endpoints',
  auth: 'api-key',
  role: 'admin',
  preview: 'webhooks',
  idempotent: true,
  etag: true,
  body: CreateWebhookEndpoint,
  success: { status: 201, schema: WebhookEndpointWithSecret },
  errors: ['conflict', 'rate_limited'],

  async handler({ caller: { accountId }, body: { name, url, event_types }, trx, afterCommit }, services) {
    const most = services.config.HEARTH_WEBHOOK_DESTINATIONS
    if ((await webhookEndpointRepository.countWebhookEndpoints(trx, accountId)) >= most)
      throw new ApiError('conflict', `an account has at most ${most} webhook endpoints; delete one first`)
    const id = newId()
    const { row: secretRow, secret, hint } = makeSecret(services.secretBox, id)
    const endpoint = await webhookEndpointRepository.insertWebhookEndpoint(trx, {
      id,
      account_id: accountId,
      name,
      ...sealUrl(services, id, url),
      event_types,
      secret_hint: hint,
    })
    await webhookEndpointRepository.insertWebhookSecret(trx, secretRow)
    await startVerification(trx, endpoint, services)
    afterCommit(() => services.outbox.poke())
    const body = { ...presentWebhookEndpoint(endpoint), secret }
    return reply(201, body, { etag: tagOfWebhookEndpoint(endpoint) })
  },
})
