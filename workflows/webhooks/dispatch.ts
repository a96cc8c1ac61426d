import { continueAsNew, proxyActivities, setCurrentDetails } from '@temporalio/workflow'
import type { WebhookActivities } from '../../activities/control/webhooks/index.ts'
import { POLICY } from '../contract/policy.ts'

const { dispatchWebhooks } = proxyActivities<WebhookActivities>(POLICY.dispatch)

const SHIFTS_PER_RUN = 100

/**
 * One, never ends: the first attempt of every delivery is made in shifts, so that what comes in hundreds a second needs no
 * workflow of its own; a delivery that did not succeed at once lives on as `webhookDelivery`.
 */
export async function webhookDispatch(): Promise<void> {
  setCurrentDetails('Makes first attempts as deliveries come in.')
  for (let shift = 0; shift < SHIFTS_PER_RUN; shift++) await dispatchWebhooks()
  await continueAsNew<typeof webhookDispatch>()
}
