import { randomBytes } from 'node:crypto'
import type { Transaction } from 'kysely'
import * as workflowStartRepository from '../../../../db/repositories/platform/workflow-starts.ts'
import * as webhookEndpointRepository from '../../../../db/repositories/webhooks/endpoints.ts'
import type { Database } from '../../../../db/tables.ts'
import type { WebhookEndpointRow } from '../../../../db/tables/webhooks.ts'
import { invalid, temporaryError } from '../../../../domain/errors.ts'
import { newId } from '../../../../domain/ids.ts'
import type { Config } from '../../../../platform/config.ts'
import { type EgressPolicy, EgressRefused } from '../../../../platform/egress/policy.ts'
import type { SecretBox } from '../../../../platform/secret-box.ts'
import { newWebhookSecret } from '../../../../platform/webhook-signature.ts'
import { webhookVerificationStart } from '../../../../workflows/contract/starts.ts'

/** How long an endpoint has to answer its challenge. */
const VERIFICATION_TIMEOUT_MS = 15 * 60_000
/** The number of hosts to which an account can send challenges, each up to the limit per host. */
const CHALLENGED_HOSTS = 3
/** The `Retry-After` in seconds. */
const CROWDED_RETRY_AFTER_S = 300

/** Returns the encrypted URL, and the origin that responses show. Throws a 422 for a URL that is not allowed. */
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

/**
 * Creates a secret: the row with the encrypted secret, the plain secret for a single response, and its last four
 * characters.
 */
export function makeSecret(secretBox: SecretBox, endpointId: string) {
  const id = newId()
  const secret = newWebhookSecret()
  const row = { id, endpoint_id: endpointId, sealed: secretBox.seal(secret, `webhook_secret/${id}`) }
  return { row, secret, hint: secret.slice(-4) }
}

/**
 * Challenges the current URL; an earlier challenge no longer counts. A challenge is a request to a host that has not
 * agreed to receive any. We therefore reject it with a 429 if this endpoint was challenged a moment ago, or if the
 * account has caused many challenges to this host or in total.
 */
export async function startVerification(
  trx: Transaction<Database>,
  { id, account_id: accountId, url_origin: urlOrigin, destination_version: version }: WebhookEndpointRow,
  { config, now }: { config: Config; now: () => Date },
): Promise<void> {
  const { HEARTH_WEBHOOK_COOLDOWN_S: cooldownS, HEARTH_WEBHOOK_CHALLENGES: perHost } = config
  const counts = await webhookEndpointRepository.countChallenges(trx, {
    accountId,
    endpointId: id,
    urlOrigin,
  })
  if (counts.sinceLastS !== null && counts.sinceLastS < cooldownS) {
    throw temporaryError(
      'rate_limited',
      `this destination was challenged a moment ago; try again in ${cooldownS} s`,
      Math.ceil(cooldownS - counts.sinceLastS),
    )
  }
  const perAccount = CHALLENGED_HOSTS * perHost
  if (counts.ofOrigin >= perHost || counts.ofAccount >= perAccount) {
    throw temporaryError(
      'rate_limited',
      `an account may send ${perHost} challenges an hour to one host and ${perAccount} in total`,
      CROWDED_RETRY_AFTER_S,
    )
  }
  const windowEndsAt = new Date(now().getTime() + VERIFICATION_TIMEOUT_MS)
  await webhookEndpointRepository.openVerification(trx, {
    endpointId: id,
    accountId,
    urlOrigin,
    version,
    challenge: randomBytes(24).toString('base64url'),
    windowEndsAt,
  })
  await workflowStartRepository.enqueueWorkflow(
    trx,
    webhookVerificationStart({ accountId, endpointId: id, version }),
  )
}
