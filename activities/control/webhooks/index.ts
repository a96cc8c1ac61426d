import * as attemptRepository from '../../../db/repositories/webhooks/attempts.ts'
import type { AttemptPlan } from '../../../db/repositories/webhooks/attempts.ts'
import * as deliveryEndingRepository from '../../../db/repositories/webhooks/endings.ts'
import * as verificationRepository from '../../../db/repositories/webhooks/verifications.ts'
import { emit } from '../events.ts'
import type { WebhookDeps } from './deps.ts'
import { dispatchFor } from './dispatch.ts'
import { Dispatcher } from './dispatcher.ts'
import { secretsFor } from './secrets.ts'
import { makeAttempt } from './send.ts'
import { settleWithRetry } from './settle.ts'
import { challenge, type VerificationOutcome } from './verify.ts'

/** The serialized form of a plan; times are epoch milliseconds. */
export type DeliveryStep =
  | { state: 'ended' }
  | { state: 'unverified' }
  | { state: 'busy'; until: number }
  | { state: 'due'; attempt: number; at: number; lastError: string | null }

/** Whether an attempt was made, or was rejected because its endpoint has too many attempts in flight. */
export type DispatchOutcome = 'done' | 'crowded'

/** Maximum later attempts in flight to one endpoint, so that one endpoint's workflows never occupy the whole worker. */
const LATER_PER_ENDPOINT = 8

/** Every activity of the `webhooks` queue. Each one's doc comment says why it is safe to repeat. */
export const createWebhookActivities = (
  deps: WebhookDeps,
  { underWay, dispatcher } = { underWay: new Map<string, number>(), dispatcher: new Dispatcher(deps) },
) => ({
  /**
   * Makes first attempts of new deliveries for one shift. Safe to repeat because a row is picked once, under a lock.
   */
  dispatchWebhooks: (): Promise<void> => dispatchFor(deps, dispatcher),

  /**
   * Returns a delivery's next step, and ends the delivery if it is past its deadline. Safe to repeat because it
   * otherwise only reads, and a delivery ends only once.
   */
  async planWebhookAttempt(deliveryId: string): Promise<DeliveryStep> {
    const plan: AttemptPlan = await attemptRepository.planAttempt(deps.db, deliveryId, deps.now())
    if (plan.state === 'due') return { ...plan, at: plan.at.getTime() }
    if (plan.state === 'busy') return { ...plan, until: plan.until.getTime() }
    if (plan.state !== 'expired') return plan
    await deliveryEndingRepository.endDelivery(deps.db, deliveryId, 'dead_lettered', deps.now())
    return { state: 'ended' }
  },

  /**
   * Makes one later attempt. Safe to repeat because the attempt's number is claimed once. An execution that finds it
   * claimed sends nothing, and the attempt of a dead execution is closed as interrupted.
   */
  async attemptWebhook(deliveryId: string, attempt: number): Promise<DispatchOutcome> {
    const endpointId = await attemptRepository.endpointOfDelivery(deps.db, deliveryId)
    if (endpointId === undefined) return 'done'
    const before = underWay.get(endpointId) ?? 0
    if (before >= LATER_PER_ENDPOINT) return 'crowded'
    underWay.set(endpointId, before + 1)
    try {
      const opened = await attemptRepository.openAttempt(deps.db, {
        deliveryId,
        number: attempt,
        now: deps.now(),
      })
      if (!opened) return 'done'
      const secretsOf = await secretsFor(deps, [opened])
      const sent = await makeAttempt(deps, opened, { secrets: () => secretsOf(opened) })
      await settleWithRetry(deps, [{ opened, sent }])
      return 'done'
    } finally {
      const remaining = (underWay.get(endpointId) ?? 1) - 1
      if (remaining > 0) underWay.set(endpointId, remaining)
      else underWay.delete(endpointId)
    }
  },

  /** Ends a delivery without another attempt. Safe to repeat because only an open delivery changes. */
  async endWebhookDelivery(deliveryId: string, status: 'cancelled' | 'dead_lettered'): Promise<void> {
    await deliveryEndingRepository.endDelivery(deps.db, deliveryId, status, deps.now())
  },

  /**
   * Challenges an endpoint once. Safe to repeat because the challenge stays the same and only a pending verification
   * changes.
   */
  async challengeWebhook(endpointId: string, version: number, attempt: number): Promise<VerificationOutcome> {
    const pending = await verificationRepository.findOpenVerification(deps.db, endpointId, version)
    if (!pending || pending.verification.window_ends_at <= deps.now()) return 'ended'
    const outcome = await challenge(deps, pending, attempt)
    if (typeof outcome === 'object') {
      await verificationRepository.noteChallengeFailure(deps.db, pending, outcome)
      return 'unanswered'
    }
    if (outcome === 'gone') {
      const disabled = await deps.db
        .transaction()
        .execute((trx) => deliveryEndingRepository.disableGoneEndpoint(trx, { endpointId, version }))
      if (disabled) emit(deps.log, 'webhook.disabled', { webhook_endpoint_id: endpointId })
      return 'ended'
    }
    const counted = await verificationRepository.finishVerification(deps.db, pending, {
      status: 'verified',
      now: deps.now(),
    })
    return counted ? 'verified' : 'ended'
  },

  /** Fails a verification, after which no response counts. Safe to repeat because only a pending verification fails. */
  async failWebhookVerification(endpointId: string, version: number): Promise<void> {
    const pending = await verificationRepository.findOpenVerification(deps.db, endpointId, version)
    if (pending)
      await verificationRepository.finishVerification(deps.db, pending, { status: 'failed', now: deps.now() })
  },
})
export type WebhookActivities = ReturnType<typeof createWebhookActivities>
