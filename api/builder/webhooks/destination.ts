import { randomBytes } from 'node:crypto'
import type { Transaction } from 'kysely'
import { openVerification } from '../../../db/repositories/webhook-endpoints.ts'
import { insertWorkflowStart } from '../../../db/repositories/workflow-starts.ts'
import type { Database } from '../../../db/tables.ts'
import type { WebhookEndpointRow } from '../../../db/tables/webhooks.ts'
import { invalid } from '../../../domain/errors.ts'
import { newId } from '../../../domain/ids.ts'
import { type EgressPolicy, EgressRefused } from '../../../platform/egress-policy.ts'
import type { SecretBox } from '../../../platform/secret-box.ts'
import { newWebhookSecret } from '../../../platform/webhook-signature.ts'
import { webhookVerificationStart } from '../../../workflows/starts.ts'

/** How long a destination has to answer its challenge (design 10.8). */
const VERIFICATION_WINDOW_MS = 15 * 60_000

/** A URL's text as it is kept: sealed, and the origin that reads show. 422 for what the text shows to be refused. */
export function sealUrl(
  { egress, secretBox }: { egress: EgressPolicy; secretBox: SecretBox },
  endpointId: string,
  url: string,
): { url_sealed: Buffer; url_origin: string } {
  try {
    const { url: parsed } = egress.parse(url)
    return { url_sealed: secretBox.seal(url, `webhook_endpoint/${endpointId}`), url_origin: parsed.origin }
  } catch (err) {
    if (err instanceof EgressRefused) throw invalid(['body', 'url'], err.message, err.reason)
    throw err
  }
}

/** A new secret: the row that keeps it sealed, its text to be shown once, and its last four characters. */
export function makeSecret(secretBox: SecretBox, endpointId: string) {
  const id = newId()
  const secret = newWebhookSecret()
  const row = { id, endpoint_id: endpointId, sealed: secretBox.seal(secret, `webhook_secret/${id}`) }
  return { row, secret, hint: secret.slice(-4) }
}

/** Challenges the current destination; the earlier challenge counts no more (contract 3.7). */
export async function startVerification(
  trx: Transaction<Database>,
  { id, account_id: accountId, destination_version: version }: WebhookEndpointRow,
  now: Date,
): Promise<void> {
  const windowEndsAt = new Date(now.getTime() + VERIFICATION_WINDOW_MS)
  await openVerification(trx, {
    endpointId: id,
    version,
    challenge: randomBytes(24).toString('base64url'),
    windowEndsAt,
  })
  await insertWorkflowStart(trx, webhookVerificationStart({ accountId, endpointId: id, version }))
}
