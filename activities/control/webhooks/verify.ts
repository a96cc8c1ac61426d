import * as webhookEndpointRepository from '../../../db/repositories/webhooks/endpoints.ts'
import type { PendingVerification } from '../../../db/repositories/webhooks/verifications.ts'
import { type ChallengeFailure, challengeFault } from '../../../domain/webhooks/challenge.ts'
import { SendError } from '../../../platform/egress/public-sender.ts'
import { VERIFICATION_EVENT } from '../../../schemas/webhook.ts'
import { emit } from '../events.ts'
import type { WebhookDeps } from './deps.ts'
import { sendSigned } from './send.ts'

export type VerificationOutcome = 'verified' | 'unanswered' | 'ended'

/** The body is the same on every try, so that its event id identifies one payload. */
function challengeBody({ endpoint, verification }: PendingVerification): Buffer {
  const payload = {
    id: verification.event_id,
    object: 'event',
    api_version: '1',
    type: VERIFICATION_EVENT,
    created_at: verification.created_at.toISOString(),
    account_id: endpoint.account_id,
    data: {
      resource: { id: endpoint.id, object: 'webhook_endpoint', status: 'pending_verification' },
      resource_url: `/api/builder/v1/webhook-endpoints/${endpoint.id}`,
      verification_challenge: verification.challenge,
    },
  }
  return Buffer.from(JSON.stringify(payload))
}

/**
 * Sends the challenge and checks that the endpoint returns it both in the header and in the body, which must be the
 * exact JSON without whitespace. Returns the failure if it does not. An endpoint that returns 410 is not challenged
 * again.
 */
export async function challenge(
  deps: WebhookDeps,
  pending: PendingVerification,
  attempt: number,
): Promise<'answered' | 'gone' | Omit<ChallengeFailure, 'is_last'>> {
  const { endpoint, verification } = pending
  const secrets = await webhookEndpointRepository.validWebhookSecrets(deps.db, endpoint.id, deps.now())
  try {
    const { status, headers, body } = await sendSigned(deps, {
      accountId: endpoint.account_id,
      url: deps.secretBox.open(endpoint.url_sealed, `webhook_endpoint/${endpoint.id}`).toString(),
      body: challengeBody(pending),
      secrets: secrets.map(({ id, sealed }) =>
        deps.secretBox.open(sealed, `webhook_secret/${id}`).toString(),
      ),
      eventId: verification.event_id,
      deliveryId: verification.event_id,
      attempt,
    })
    if (status === 410) return 'gone'
    const header = headers['service-verification-challenge']
    return challengeFault({ status, header, body }, verification.challenge) ?? 'answered'
  } catch (err) {
    if (!(err instanceof SendError)) throw err
    emit(deps.log, 'webhook.challenge_failed', { webhook_endpoint_id: endpoint.id, reason: err.reason })
    return { error_code: err.reason, status_class: null }
  }
}
