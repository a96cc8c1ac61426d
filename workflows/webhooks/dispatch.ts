import { continueAsNew, proxyActivities, setCurrentDetails } from '@temporalio/workflow'
import type { WebhookActivities } from '../../activities/control/webhooks/index.ts'
import { POLICY } from '../contract/policy.ts'

const { dispatchWebhooks } = proxyActivities<WebhookActivities>(POLICY.dispatch)

const SHIFTS_PER_RUN = 100

/**
 * A single execution that never ends. The first attempts of all deliveries are made in shifts, so that hundreds of
 * deliveries a second do not each need a workflow. A delivery whose first attempt failed continues as
 * `webhookDelivery`.
 */
export async function webhookDispatch(): Promise<void> {
  setCurrentDetails('Makes first attempts as deliveries come in.')
  for (let shift = 0; shift < SHIFTS_PER_RUN; shift++) await dispatchWebhooks()
  await continueAsNew<typeof webhookDispatch>()
}
