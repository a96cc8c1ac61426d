import {
  CancellationScope,
  condition,
  continueAsNew,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow'
import type { WebhookActivities } from '../../activities/control/webhooks/index.ts'
import { MAX_ATTEMPTS } from '../../domain/webhooks/schedule.ts'
import { retryDeliveryNow } from '../contract/messages.ts'
import { LOCAL, PAUSE, POLICY } from '../contract/policy.ts'

const { attemptWebhook } = proxyActivities<WebhookActivities>(POLICY.deliver)
const { endWebhookDelivery, planWebhookAttempt } = proxyLocalActivities<WebhookActivities>(LOCAL.record)

export interface WebhookDeliveryInput {
  deliveryId: string
}

/** The longest sleep, so that the workflow ends soon after its endpoint is disabled. */
const MAX_SLEEP_DELAY_MS = 3_600_000

/**
 * The second to eighth attempt of one delivery. The row is authoritative: this workflow sleeps until the attempt is
 * due, makes it, and reads the row again. The signal `retry_now` makes the next attempt immediately; cancelling the
 * workflow ends the delivery.
 */
export async function webhookDelivery({ deliveryId }: WebhookDeliveryInput): Promise<void> {
  let isHurried = false
  let looks = 0
  let crowded = 0
  setHandler(retryDeliveryNow, () => {
    isHurried = true
  })
  const waitFor = async (details: string, ms: number) => {
    setCurrentDetails(details)
    await condition(() => isHurried, ms)
  }
  try {
    for (;;) {
      const step = await planWebhookAttempt(deliveryId)
      if (step.state === 'ended') break
      if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof webhookDelivery>({ deliveryId })
      if (step.state === 'unverified') {
        isHurried = false
        await waitFor(
          'Waiting until the destination is verified or the 48-hour deadline passes.',
          doubled(PAUSE.forDestination, looks++),
        )
        continue
      }
      if (step.state === 'busy') {
        setCurrentDetails(
          'An attempt is being made; if its sender has died, it is closed as interrupted soon.',
        )
        await sleep(Math.max(step.until - Date.now(), 0) + PAUSE.forSender)
        continue
      }

      const wait = step.at - Date.now()
      if (wait > 0 && !isHurried) {
        const due = `Attempt ${step.attempt} of ${MAX_ATTEMPTS} at ${new Date(step.at).toISOString()}.`
        await waitFor(
          `${due} The previous one: ${step.lastError ?? 'no answer'}.`,
          Math.min(wait, MAX_SLEEP_DELAY_MS),
        )
        continue
      }
      isHurried = false
      setCurrentDetails(`Attempt ${step.attempt} of ${MAX_ATTEMPTS} is being made.`)
      if ((await attemptWebhook(deliveryId, step.attempt)) !== 'crowded') {
        looks = 0
        crowded = 0
        continue
      }
      const pause = doubled(PAUSE.forRoom, crowded++) * (0.5 + Math.random() / 2)
      await waitFor(
        `Attempt ${step.attempt} is waiting for other attempts to the same destination to end.`,
        pause,
      )
    }
    setCurrentDetails("Ended; the delivery's row contains the outcome.")
  } catch (err) {
    if (isCancellation(err)) {
      await CancellationScope.nonCancellable(() => endWebhookDelivery(deliveryId, 'cancelled'))
    }
    throw err
  }
}

const doubled = ({ firstMs, longestMs }: { firstMs: number; longestMs: number }, times: number): number =>
  Math.min(firstMs * 2 ** times, longestMs)
