import * as deliveryRepository from '../../../../db/repositories/webhooks/deliveries.ts'
import * as webhookEndpointRepository from '../../../../db/repositories/webhooks/endpoints.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { EVENT_RETENTION_MS } from '../../../../domain/webhooks/schedule.ts'
import { WebhookDeliveryParams, WebhookRedelivery } from '../../../../schemas/webhook.ts'
import { route } from '../../../http/route.ts'
import { noWebhookDelivery, presentWebhookDelivery } from './present.ts'

export const redeliverWebhook = route({
  operationId: 'redeliverWebhook',
  summary: 'Send an event again: same id and payload, next generation',
  method: 'POST',
  path: '/webhook-deliveries/{delivery_id}/redeliver',
  auth: 'api-key',
  role: 'operator',
  preview: 'webhooks',
  params: WebhookDeliveryParams,
  success: { status: 202, schema: WebhookRedelivery },
  errors: ['not_found', 'conflict', 'gone'],

  async handler({ caller: { accountId }, params }, { db, now }) {
    return db.transaction().execute(async (trx) => {
      const delivery = await deliveryRepository.findWebhookDelivery(trx, accountId, params.delivery_id)
      if (!delivery) throw noWebhookDelivery()
      const endpoint = await webhookEndpointRepository.lockWebhookEndpoint(
        trx,
        accountId,
        delivery.endpoint_id,
      )
      if (!endpoint?.enabled || endpoint.verification_status !== 'active') {
        throw new ApiError(
          'conflict',
          'the destination must be enabled and verified before an event can be redelivered',
        )
      }
      const at = now()
      const generations = await deliveryRepository.lockGenerations(trx, delivery)
      refuseExpired(await deliveryRepository.eventCreatedAt(trx, delivery.event_id), at)
      // The first generation is not a redelivery: it continues on its schedule along with the new one.
      const open = generations.find(
        ({ generation, status }) =>
          generation > 1 && deliveryRepository.OPEN_DELIVERY.some((other) => other === status),
      )
      if (open) return { ...presentWebhookDelivery(open), replayed: true }

      const secrets = await webhookEndpointRepository.validWebhookSecrets(trx, endpoint.id, at)
      const next = await deliveryRepository.insertRedelivery(trx, delivery, {
        generation: (generations.at(-1)?.generation ?? delivery.generation) + 1,
        version: endpoint.destination_version,
        secretIds: secrets.map(({ id }) => id),
        now: at,
      })
      return { ...presentWebhookDelivery(next), replayed: false }
    })
  },
})

/** Throws a 410 for an expired event. Delivery rows outlive their events by a week so that we can give this reason. */
function refuseExpired(createdAt: Date | undefined, at: Date): void {
  if (createdAt && at.getTime() - createdAt.getTime() <= EVENT_RETENTION_MS) return
  throw new ApiError('gone', 'the event is past its 30-day retention; read the resource instead')
}
