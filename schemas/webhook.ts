import Type, { type Static } from 'typebox'
import { Nullable, OrderedPageQuery, pageOf, Timestamp, Uuid, valuesOf, Vocabulary } from './common.ts'

/** Events that webhooks can subscribe to. */
export const WebhookEventType = Vocabulary(
  'inference.task.succeeded',
  'inference.task.failed',
  'invocation.completed',
  'invocation.failed',
  'training.run.completed',
  'training.run.failed',
  'training.run.cancelled',
  'training.merge.completed',
  'training.merge.failed',
  'training.merge.cancelled',
)
export type WebhookEventType = Static<typeof WebhookEventType>

/** Events about a webhook endpoint itself, which webhooks cannot subscribe to. */
export const VERIFICATION_EVENT = 'webhook.endpoint_verification'
export const TEST_EVENT = 'webhook.test'
/** Every event that a delivery can carry. */
const DeliveredEventType = Vocabulary(...valuesOf(WebhookEventType), VERIFICATION_EVENT, TEST_EVENT)

export const VerificationStatus = Vocabulary('pending_verification', 'active')

const EndpointName = Type.String({ minLength: 1, maxLength: 200 })
const EndpointUrl = Type.String({
  minLength: 1,
  maxLength: 2048,
  description: 'HTTPS on port 443, a public host name, no user name, no fragment.',
})
const EventTypes = Type.Array(WebhookEventType, { minItems: 1, maxItems: 10, uniqueItems: true })

export const CreateWebhookEndpoint = Type.Object(
  { name: EndpointName, url: EndpointUrl, event_types: EventTypes },
  { $id: 'CreateWebhookEndpoint', additionalProperties: false },
)
export type CreateWebhookEndpoint = Static<typeof CreateWebhookEndpoint>

export const UpdateWebhookEndpoint = Type.Object(
  {
    name: Type.Optional(EndpointName),
    url: Type.Optional(EndpointUrl),
    event_types: Type.Optional(EventTypes),
    enabled: Type.Optional(Type.Boolean()),
  },
  { $id: 'UpdateWebhookEndpoint', additionalProperties: false, minProperties: 1 },
)
export type UpdateWebhookEndpoint = Static<typeof UpdateWebhookEndpoint>

/** A webhook endpoint in responses, without its URL and secret. */
export const WebhookEndpoint = Type.Object(
  {
    endpoint_id: Uuid,
    name: Type.String(),
    url: Type.Literal('https://***'),
    url_origin: Type.String(),
    event_types: Type.Array(Type.String()),
    enabled: Type.Boolean(),
    disabled_reason: Nullable(Type.String()),
    verification_status: VerificationStatus,
    /** Why the endpoint is not verified; null until a challenge has failed, and after one has succeeded. */
    verification_error: Nullable(
      Type.Object({
        error_code: Type.String(),
        status_class: Nullable(Type.String({ pattern: '^[1-5]xx$' })),
        message: Type.String(),
      }),
    ),
    secret_hint: Type.String(),
    created_at: Timestamp,
    updated_at: Timestamp,
  },
  { $id: 'WebhookEndpoint' },
)
export type WebhookEndpoint = Static<typeof WebhookEndpoint>

/** The responses to `create` and `rotate` contain the signing secret; no other response does. */
export const WebhookEndpointWithSecret = Type.Object(
  { ...WebhookEndpoint.properties, secret: Type.String({ pattern: '^whsec_' }) },
  { $id: 'WebhookEndpointWithSecret' },
)

export const WebhookEndpointList = pageOf('webhook_endpoints', WebhookEndpoint)
export const WebhookEndpointParams = Type.Object({ endpoint_id: Uuid })

export const RotateSecret = Type.Object(
  {
    mode: Type.Optional(
      Type.Unsafe<'graceful' | 'emergency'>({
        ...Vocabulary('graceful', 'emergency'),
        default: 'graceful',
        description:
          'graceful: both secrets sign during the overlap; emergency: the earlier ones are revoked immediately.',
      }),
    ),
    overlap_s: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 604_800, default: 86_400, description: 'graceful only' }),
    ),
  },
  { $id: 'RotateSecret', additionalProperties: false },
)

export const WebhookDeliveryStatus = Vocabulary(
  'pending',
  'delivering',
  'retrying',
  'succeeded',
  'failed',
  'dead_lettered',
  'cancelled',
)

export const AttemptOutcome = Vocabulary('succeeded', 'retryable', 'permanent', 'interrupted')

/**
 * An attempt shows only the outcome, a code from a fixed list, the status class and the timing, so it can't leak what
 * the receiver sent.
 */
export const WebhookAttempt = Type.Object(
  {
    attempt: Type.Integer({ minimum: 1 }),
    outcome: Nullable(AttemptOutcome),
    error_code: Nullable(Type.String()),
    status_class: Nullable(Type.String({ pattern: '^[1-5]xx$' })),
    started_at: Timestamp,
    duration_ms: Nullable(Type.Integer({ minimum: 0 })),
  },
  { $id: 'WebhookAttempt' },
)

const deliveryFields = {
  delivery_id: Uuid,
  endpoint_id: Uuid,
  event_id: Uuid,
  event_type: Type.String(),
  delivery_generation: Type.Integer({ minimum: 1 }),
  redelivery_of_delivery_id: Nullable(Uuid),
  status: WebhookDeliveryStatus,
  attempt_count: Type.Integer({ minimum: 0 }),
  next_attempt_at: Nullable(Timestamp),
  created_at: Timestamp,
  completed_at: Nullable(Timestamp),
}
export const WebhookDelivery = Type.Object(deliveryFields, { $id: 'WebhookDelivery' })
export type WebhookDelivery = Static<typeof WebhookDelivery>

export const WebhookDeliveryDetail = Type.Object(
  { ...deliveryFields, attempts: Type.Array(WebhookAttempt) },
  { $id: 'WebhookDeliveryDetail' },
)

export const WebhookRedelivery = Type.Object(
  { ...deliveryFields, replayed: Type.Boolean() },
  { $id: 'WebhookRedelivery' },
)

export const WebhookTestQueued = Type.Object(
  { delivery_id: Uuid, event_id: Uuid, status: WebhookDeliveryStatus },
  { $id: 'WebhookTestQueued' },
)

export const WebhookDeliveryList = pageOf('deliveries', WebhookDelivery)
export const WebhookDeliveryParams = Type.Object({ delivery_id: Uuid })
export const WebhookDeliveryQuery = Type.Object({
  ...OrderedPageQuery.properties,
  endpoint_id: Type.Optional(Uuid),
  status: Type.Optional(WebhookDeliveryStatus),
  event_type: Type.Optional(DeliveredEventType),
})
