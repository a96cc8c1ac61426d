import { proxyActivities, proxyLocalActivities, setCurrentDetails, sleep } from '@temporalio/workflow'
import type { WebhookActivities } from '../../activities/control/webhooks/index.ts'
import { LOCAL, PAUSE, POLICY } from '../contract/policy.ts'

const { challengeWebhook } = proxyActivities<WebhookActivities>(POLICY.deliver)
const { failWebhookVerification } = proxyLocalActivities<WebhookActivities>(LOCAL.record)

export interface WebhookVerificationInput {
  endpointId: string
  /** The version of the endpoint's URL. Changing the URL creates a new version, with its own challenge. */
  version: number
}

/** Challenges an endpoint at 0 s, 30 s, 2 min and 10 min; without a response it stays unverified. */
export async function webhookVerification({
  endpointId,
  version,
}: WebhookVerificationInput): Promise<string> {
  const openedAt = Date.now()
  for (const [i, offset] of PAUSE.challenges.entries()) {
    const wait = openedAt + offset - Date.now()
    if (wait > 0) {
      setCurrentDetails(
        `The destination did not answer its challenge; try ${i + 1} of ${PAUSE.challenges.length} follows.`,
      )
      await sleep(wait)
    }
    const outcome = await challengeWebhook(endpointId, version, i + 1)
    if (outcome !== 'unanswered') {
      setCurrentDetails(
        outcome === 'verified' ? 'Verified.' : 'Ended: the endpoint has changed or no longer exists.',
      )
      return outcome
    }
  }
  await failWebhookVerification(endpointId, version)
  setCurrentDetails('Not verified within 15 minutes. Set the URL again, even to the same value, to retry.')
  return 'failed'
}
