import type { Static } from 'typebox'
import type {
  WebhookAttemptRow,
  WebhookDeliveryRow,
  WebhookEndpointRow,
} from '../../../../db/tables/webhooks.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { formatChallengeFailure } from '../../../../domain/webhooks/challenge.ts'
import { sanitizedCode } from '../../../../domain/webhooks/outcome.ts'
import type { WebhookAttempt, WebhookDelivery, WebhookEndpoint } from '../../../../schemas/webhook.ts'

/** Returns a webhook endpoint without its URL and secret. */
export const presentWebhookEndpoint = (row: WebhookEndpointRow): WebhookEndpoint => ({
  endpoint_id: row.id,
  name: row.name,
  url: 'https://***',
  url_origin: row.url_origin,
  event_types: row.event_types,
  enabled: row.enabled,
  disabled_reason: row.disabled_reason,
  verification_status: row.verification_status,
  verification_error: verificationErrorOf(row),
  secret_hint: row.secret_hint,
  created_at: row.created_at.toISOString(),
  updated_at: row.updated_at.toISOString(),
})

function verificationErrorOf({
  verification_failure: failure,
}: WebhookEndpointRow): WebhookEndpoint['verification_error'] {
  if (!failure) return null
  const { error_code, status_class } = failure
  return {
    error_code: sanitizedCode(error_code),
    status_class,
    message: formatChallengeFailure(failure),
  }
}

/** Returns the tag of a webhook endpoint's current state. */
export const tagOfWebhookEndpoint = (row: WebhookEndpointRow): string => `"${row.revision}"`

export const presentWebhookDelivery = (row: WebhookDeliveryRow): WebhookDelivery => ({
  delivery_id: row.id,
  endpoint_id: row.endpoint_id,
  event_id: row.event_id,
  event_type: row.event_type,
  delivery_generation: row.generation,
  redelivery_of_delivery_id: row.redelivery_of,
  status: row.status,
  attempt_count: row.attempts,
  // While an attempt is in flight, this column stores the time until which its sender counts as alive.
  next_attempt_at: (row.status === 'delivering' ? null : row.next_attempt_at?.toISOString()) ?? null,
  created_at: row.created_at.toISOString(),
  completed_at: row.completed_at?.toISOString() ?? null,
})

export const presentWebhookAttempt = (row: WebhookAttemptRow): Static<typeof WebhookAttempt> => ({
  attempt: row.number,
  outcome: row.outcome,
  error_code: row.error_code === null ? null : sanitizedCode(row.error_code),
  status_class: row.status_class,
  started_at: row.started_at.toISOString(),
  duration_ms: row.finished_at ? row.finished_at.getTime() - row.started_at.getTime() : null,
})

export const noWebhookEndpoint = (): ApiError =>
  new ApiError('not_found', 'there is no webhook endpoint with this id')

export const noWebhookDelivery = (): ApiError =>
  new ApiError('not_found', 'there is no delivery with this id')
