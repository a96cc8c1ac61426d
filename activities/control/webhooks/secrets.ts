import type { OpenedAttempt } from '../../../db/repositories/webhooks/attempts.ts'
import * as webhookEndpointRepository from '../../../db/repositories/webhooks/endpoints.ts'
import type { WebhookDeps } from './deps.ts'

/**
 * Returns the secrets to sign each attempt with: the valid ones, newest first. A redelivery has pinned secrets, and an
 * emergency rotation overrides every pin.
 */
export async function secretsFor(
  { db, secretBox, now }: WebhookDeps,
  attempts: readonly OpenedAttempt[],
): Promise<(attempt: OpenedAttempt) => string[]> {
  const rows = await webhookEndpointRepository.signingSecrets(db, [
    ...new Set(attempts.map(({ delivery }) => delivery.endpoint_id)),
  ])
  const at = now()
  return ({ delivery: { endpoint_id, pinned_secrets } }) => {
    const endpointSecrets = rows.filter((row) => row.endpoint_id === endpoint_id)
    const current = endpointSecrets.filter(({ expires_at }) => expires_at === null || expires_at > at)
    const pinned = pinned_secrets ? endpointSecrets.filter(({ id }) => pinned_secrets.includes(id)) : []
    // If every pinned secret was revoked, sign with the current ones, so that the receiver can still verify the
    // request.
    const chosen = pinned.length > 0 ? pinned : current
    return chosen.map(({ id, sealed }) => secretBox.open(sealed, `webhook_secret/${id}`).toString())
  }
}
