import type { OpenedAttempt } from '../../../db/repositories/webhooks/attempts.ts'
import { signingSecrets } from '../../../db/repositories/webhooks/endpoints.ts'
import type { WebhookDeps } from './deps.ts'

/**
 * The secrets each attempt is signed with: those valid now, newest first; a redelivery's are pinned, and an emergency
 * rotation overrides any pin.
 */
export async function secretsFor(
  { db, secretBox, now }: WebhookDeps,
  attempts: readonly OpenedAttempt[],
): Promise<(attempt: OpenedAttempt) => string[]> {
  const rows = await signingSecrets(db, [...new Set(attempts.map(({ delivery }) => delivery.endpoint_id))])
  const at = now()
  return ({ delivery: { endpoint_id, pinned_secrets } }) => {
    const own = rows.filter((row) => row.endpoint_id === endpoint_id)
    const current = own.filter(({ expires_at }) => expires_at === null || expires_at > at)
    const pinned = pinned_secrets ? own.filter(({ id }) => pinned_secrets.includes(id)) : []
    // Every pinned secret may have been revoked: what is sent must still be verifiable.
    const chosen = pinned.length > 0 ? pinned : current
    return chosen.map(({ id, sealed }) => secretBox.open(sealed, `webhook_secret/${id}`).toString())
  }
}
