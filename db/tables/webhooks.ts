import type { Insertable, Selectable } from 'kysely'
import type { ChallengeFailure } from '../../domain/webhooks/challenge.ts'
import type { CreatedAt, WithDefault, NullableJson, Optional } from './columns.ts'

export interface WebhookEndpointTable {
  id: string
  account_id: string
  name: string
  url_sealed: Buffer
  url_origin: string
  event_types: string[]
  enabled: WithDefault<boolean>
  disabled_reason: Optional<string>
  verification_status: 'pending_verification' | 'active'
  /** The failure of the last challenge of this version; null without a challenge, or after a successful one. */
  verification_failure: NullableJson<ChallengeFailure>
  revision: WithDefault<number>
  destination_version: WithDefault<number>
  /** The secret's last four characters. */
  secret_hint: string
  created_at: CreatedAt
  updated_at: WithDefault<Date>
  deleted_at: Optional<Date>
  /**
   * The time since which it has been enabled and verified, set by a trigger; earlier events are not delivered to it.
   */
  active_since: Optional<Date>
}
export type WebhookEndpointRow = Selectable<WebhookEndpointTable>

export interface WebhookSecretTable {
  id: string
  endpoint_id: string
  sealed: Buffer
  created_at: CreatedAt
  expires_at: Optional<Date>
  revoked: WithDefault<boolean>
}
export type WebhookSecretRow = Selectable<WebhookSecretTable>

export interface WebhookVerificationTable {
  endpoint_id: string
  destination_version: number
  event_id: string
  challenge: string
  status: 'pending' | 'verified' | 'failed' | 'superseded'
  window_ends_at: Date
  created_at: CreatedAt
  /** The account that requested the challenge, and the origin; null in rows that are older than these columns. */
  account_id: Optional<string>
  url_origin: Optional<string>
}
export type WebhookVerificationRow = Selectable<WebhookVerificationTable>

export type WebhookDeliveryStatus =
  | 'pending'
  | 'delivering'
  | 'retrying'
  | 'succeeded'
  | 'failed'
  | 'dead_lettered'
  | 'cancelled'

export interface WebhookDeliveryTable {
  id: string
  account_id: string
  endpoint_id: string
  event_id: string
  event_type: string
  generation: WithDefault<number>
  redelivery_of: Optional<string>
  status: WebhookDeliveryStatus
  attempts: WithDefault<number>
  pinned_version: Optional<number>
  pinned_secrets: Optional<string[]>
  next_attempt_at: Optional<Date>
  deadline_at: Date
  created_at: WithDefault<Date>
  completed_at: Optional<Date>
}
export type WebhookDeliveryRow = Selectable<WebhookDeliveryTable>
export type NewWebhookDelivery = Insertable<WebhookDeliveryTable>

export interface WebhookAttemptTable {
  delivery_id: string
  number: number
  started_at: Date
  finished_at: Optional<Date>
  outcome: Optional<'succeeded' | 'retryable' | 'permanent' | 'interrupted'>
  error_code: Optional<string>
  status_class: Optional<string>
}
export type WebhookAttemptRow = Selectable<WebhookAttemptTable>

/** An event that still has to be fanned out. */
export interface WebhookOutboxTable {
  event_id: string
  account_id: string
  event_type: string
  created_at: CreatedAt
}

/** An event that is waiting until its endpoint has fewer open deliveries. */
export interface WebhookOverflowTable extends WebhookOutboxTable {
  endpoint_id: string
}

export interface WebhookTables {
  webhook_endpoint: WebhookEndpointTable
  webhook_secret: WebhookSecretTable
  webhook_verification: WebhookVerificationTable
  webhook_delivery: WebhookDeliveryTable
  webhook_attempt: WebhookAttemptTable
  webhook_outbox: WebhookOutboxTable
  webhook_overflow: WebhookOverflowTable
}
