import { randomBytes } from 'node:crypto'
import type { Transaction } from 'kysely'
import { enqueueWorkflow } from '../../../../db/repositories/platform/workflow-starts.ts'
import { countChallenges, openVerification } from '../../../../db/repositories/webhooks/endpoints.ts'
import type { Database } from '../../../../db/tables.ts'
import type { WebhookEndpointRow } from '../../../../db/tables/webhooks.ts'
import { invalid, tryLater } from '../../../../domain/errors.ts'
import { newId } from '../../../../domain/ids.ts'
import type { Config } from '../../../../platform/config.ts'
import { type EgressPolicy, EgressRefused } from '../../../../platform/egress/policy.ts'
import type { SecretBox } from '../../../../platform/secret-box.ts'
import { newWebhookSecret } from '../../../../platform/webhook-signature.ts'
import { webhookVerificationStart } from '../../../../workflows/contract/starts.ts'

/** How long a destination has to answer its challenge. */
const VERIFICATION_WINDOW_MS = 15 * 60_000
/** Hosts that an account may have challenged as often as each of them may be. */
const CHALLENGED_HOSTS = 3
/** When it may be worth trying again, seconds. */
const CROWDED_RETRY_S = 300

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

/**
 * Challenges the current destination; the earlier challenge counts no more. A challenge is a request to a
 * host that has not agreed to any: 429 when this destination had one a moment ago, or when the account has had many sent,
 * to this host or in all.
 */
export async function startVerification(
  trx: Transaction<Database>,
  { id, account_id: accountId, url_origin: urlOrigin, destination_version: version }: WebhookEndpointRow,
  { config, now }: { config: Config; now: () => Date },
): Promise<void> {
  const { HEARTH_WEBHOOK_COOLDOWN_S: cooldownS, HEARTH_WEBHOOK_CHALLENGES: perHost } = config
  const counts = await countChallenges(trx, { accountId, endpointId: id, urlOrigin })
  if (counts.sinceLastS !== null && counts.sinceLastS < cooldownS) {
    throw tryLater(
      'rate_limited',
      `this destination was challenged a moment ago; try again in ${cooldownS} s`,
      Math.ceil(cooldownS - counts.sinceLastS),
    )
  }
  const perAccount = CHALLENGED_HOSTS * perHost
  if (counts.ofOrigin >= perHost || counts.ofAccount >= perAccount) {
    throw tryLater(
      'rate_limited',
      `an account may have ${perHost} challenges an hour sent to one host and ${perAccount} in all`,
      CROWDED_RETRY_S,
    )
  }
  const windowEndsAt = new Date(now().getTime() + VERIFICATION_WINDOW_MS)
  await openVerification(trx, {
    endpointId: id,
    accountId,
    urlOrigin,
    version,
    challenge: randomBytes(24).toString('base64url'),
    windowEndsAt,
  })
  await enqueueWorkflow(trx, webhookVerificationStart({ accountId, endpointId: id, version }))
}
