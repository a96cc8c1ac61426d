import type { OpenedAttempt } from '../../../db/repositories/webhooks/attempts.ts'
import { type AttemptVerdict, judgeAttempt } from '../../../domain/webhooks/outcome.ts'
import type { Answer } from '../../../platform/egress/public-exchange.ts'
import { SendError } from '../../../platform/egress/public-sender.ts'
import { signWebhook } from '../../../platform/webhook-signature.ts'
import { emit } from '../events.ts'
import type { WebhookDeps } from './deps.ts'

/** One signed request to an endpoint. */
export interface SignedRequest {
  accountId: string
  url: string
  body: Buffer
  secrets: readonly string[]
  eventId: string
  deliveryId: string
  attempt: number
  signal?: AbortSignal
}

/**
 * Signs the request right before posting it. Throws a `SendError`; throws another error when there is no secret because
 * the endpoint was deleted.
 */
export async function sendSigned({ sender, now }: WebhookDeps, send: SignedRequest): Promise<Answer> {
  if (send.secrets.length === 0) throw new Error('there is no secret to sign with')
  const timestamp = Math.floor(now().getTime() / 1000)
  return sender.send(send.url, {
    method: 'POST',
    owner: send.accountId,
    headers: {
      'content-type': 'application/json',
      'user-agent': 'Hearth-Webhooks/1',
      'service-signature': signWebhook(send.secrets, timestamp, send.body),
      'service-event-id': send.eventId,
      'service-delivery-id': send.deliveryId,
      'service-attempt': String(send.attempt),
      'service-webhook-version': '1',
    },
    body: send.body,
    ...(send.signal && { signal: send.signal }),
  })
}

/** The verdict on an attempt, with its times. */
export interface DeliveryResult {
  verdict: AttemptVerdict
  retryAfter: string | undefined
  at: Date
}

/** Makes an attempt that was opened in the database. Never throws: every failure becomes a verdict. */
export async function makeAttempt(
  deps: WebhookDeps,
  { delivery, number, urlSealed, payload }: OpenedAttempt,
  { secrets, signal }: { secrets: () => string[]; signal?: AbortSignal },
): Promise<DeliveryResult> {
  try {
    const url = deps.secretBox.open(urlSealed, `webhook_endpoint/${delivery.endpoint_id}`).toString()
    const { status, headers } = await sendSigned(deps, {
      accountId: delivery.account_id,
      url,
      body: payload,
      secrets: secrets(),
      eventId: delivery.event_id,
      deliveryId: delivery.id,
      attempt: number,
      ...(signal && { signal }),
    })
    const retryAfter = headers['retry-after']
    const requestedDelay = typeof retryAfter === 'string' ? retryAfter : undefined
    return {
      verdict: judgeAttempt({ status, retryAfter: requestedDelay }),
      retryAfter: requestedDelay,
      at: deps.now(),
    }
  } catch (err) {
    if (!(err instanceof SendError))
      emit(deps.log, 'webhook.delivery_failed', { err, delivery_id: delivery.id })
    const failure = err instanceof SendError ? err.reason : 'internal'
    return { verdict: judgeAttempt({ failure }), retryAfter: undefined, at: deps.now() }
  }
}
