import { setTimeout as sleep } from 'node:timers/promises'
import * as workflowStartRepository from '../../../db/repositories/platform/workflow-starts.ts'
import * as attemptRepository from '../../../db/repositories/webhooks/attempts.ts'
import type {
  ClosedAttempt,
  InterruptedAttempt,
  OpenedAttempt,
} from '../../../db/repositories/webhooks/attempts.ts'
import * as deliveryEndingRepository from '../../../db/repositories/webhooks/endings.ts'
import * as webhookEndpointRepository from '../../../db/repositories/webhooks/endpoints.ts'
import { type AttemptVerdict, INTERRUPTED } from '../../../domain/webhooks/outcome.ts'
import { planDelivery } from '../../../domain/webhooks/plan.ts'
import { webhookDeliveryStart } from '../../../workflows/contract/starts.ts'
import { emit } from '../events.ts'
import type { WebhookDeps } from './deps.ts'
import type { DeliveryResult } from './send.ts'

export interface CompletedAttempt {
  opened: OpenedAttempt
  sent: DeliveryResult
}

/**
 * Records the outcomes of attempts in one transaction, which also enqueues a `webhookDelivery` workflow for each
 * delivery to retry. An endpoint that returned 410 is disabled and its other open deliveries end. If the URL was
 * changed in the meantime, a 410 is a failed attempt like any other, and the next attempt goes to the new URL.
 */
export async function settleAttempts(deps: WebhookDeps, ended: readonly CompletedAttempt[]): Promise<void> {
  const now = deps.now()
  const disabledAttempts = ended
    .filter(({ sent }) => sent.verdict.disablesEndpoint)
    .map(({ opened }) => opened)
  await deps.db.transaction().execute(async (trx) => {
    const versions = await webhookEndpointRepository.lockDestinations(
      trx,
      disabledAttempts.map(({ delivery }) => delivery.endpoint_id),
    )
    const isReplaced = ({ delivery, destinationVersion }: OpenedAttempt): boolean =>
      versions.get(delivery.endpoint_id) !== destinationVersion
    const closed = ended.map((each) =>
      each.sent.verdict.disablesEndpoint && isReplaced(each.opened)
        ? closedAttempt(each, { ...each.sent.verdict, outcome: 'retryable' }, now)
        : closedAttempt(each, each.sent.verdict, now),
    )
    await attemptRepository.closeAttempts(trx, closed)
    for (const [i, { opened }] of ended.entries()) {
      const { delivery, number } = opened
      if (number > 1 || closed[i]?.status !== 'retrying') continue
      const start = webhookDeliveryStart({ deliveryId: delivery.id, accountId: delivery.account_id })
      await workflowStartRepository.enqueueWorkflow(trx, start)
    }
    for (const { delivery, destinationVersion: version } of disabledAttempts) {
      if (
        await deliveryEndingRepository.disableGoneEndpoint(trx, { endpointId: delivery.endpoint_id, version })
      )
        emit(deps.log, 'webhook.disabled', { webhook_endpoint_id: delivery.endpoint_id })
    }
  })
}

const closedAttempt = (
  { opened: { delivery, number }, sent }: CompletedAttempt,
  verdict: AttemptVerdict,
  now: Date,
): ClosedAttempt => ({
  deliveryId: delivery.id,
  number,
  finishedAt: sent.at,
  verdict,
  ...planDelivery({
    verdict,
    attempt: number,
    createdAt: delivery.created_at.getTime(),
    now: now.getTime(),
    retryAfter: sent.retryAfter,
    random: Math.random(),
  }),
})

/**
 * How long results wait in memory while the database is unavailable; after that, their attempts count as interrupted.
 */
const RETRY_TIMEOUT_MS = 20_000
const RETRY_DELAY_MS = 500

/** Retries `settleAttempts` while the database is unavailable, so that delivered events are not sent twice. */
export async function settleWithRetry(deps: WebhookDeps, ended: readonly CompletedAttempt[]): Promise<void> {
  for (const since = performance.now(); ;) {
    try {
      await settleAttempts(deps, ended)
      return
    } catch (err) {
      if (performance.now() - since > RETRY_TIMEOUT_MS) throw err
      emit(deps.log, 'webhook.settle_delayed', { err, attempts: ended.length })
      await sleep(RETRY_DELAY_MS)
    }
  }
}

/** Closes attempts whose sender died. Their deliveries are retried on the usual schedule, as after any failure. */
export async function settleInterrupted(
  { db, now }: WebhookDeps,
  interrupted: readonly InterruptedAttempt[],
): Promise<void> {
  const at = now()
  const closed = interrupted.map(({ deliveryId, number, createdAt }) => ({
    deliveryId,
    number,
    finishedAt: at,
    verdict: INTERRUPTED,
    ...planDelivery({
      verdict: INTERRUPTED,
      attempt: number,
      createdAt: createdAt.getTime(),
      now: at.getTime(),
      retryAfter: undefined,
      random: Math.random(),
    }),
  }))
  const starts = interrupted.flatMap(({ deliveryId, accountId }, i) =>
    closed[i]?.status === 'retrying' ? [webhookDeliveryStart({ deliveryId, accountId })] : [],
  )
  await db.transaction().execute(async (trx) => {
    await attemptRepository.closeAttempts(trx, closed)
    for (const start of starts) await workflowStartRepository.enqueueWorkflow(trx, start)
  })
}
