import { setTimeout as sleep } from 'node:timers/promises'
import {
  type ClosedAttempt,
  closeAttempts,
  type Interrupted,
  type OpenedAttempt,
} from '../../../db/repositories/webhook-attempts.ts'
import { cancelDeliveries, disableGoneEndpoint } from '../../../db/repositories/webhook-endings.ts'
import { INTERRUPTED } from '../../../domain/webhook-outcome.ts'
import { planDelivery } from '../../../domain/webhook-plan.ts'
import { webhookDeliveryStart } from '../../../workflows/starts.ts'
import type { WebhookDeps } from './deps.ts'
import type { Sent } from './send.ts'

export interface Ended {
  opened: OpenedAttempt
  sent: Sent
}

/** Records how attempts ended. What must be tried again lives on as a workflow, promised in the same transaction. */
export async function settleAttempts(deps: WebhookDeps, ended: readonly Ended[]): Promise<void> {
  const now = deps.now()
  const closed: ClosedAttempt[] = ended.map(
    ({ opened: { delivery, number }, sent: { verdict, retryAfter } }) => ({
      deliveryId: delivery.id,
      number,
      finishedAt: now,
      verdict,
      ...planDelivery({
        verdict,
        attempt: number,
        createdAt: delivery.created_at.getTime(),
        now: now.getTime(),
        retryAfter,
        random: Math.random(),
      }),
    }),
  )
  const starts = ended.flatMap(({ opened: { delivery, number } }, i) =>
    number === 1 && closed[i]?.status === 'retrying'
      ? [webhookDeliveryStart({ deliveryId: delivery.id, accountId: delivery.account_id })]
      : [],
  )
  await closeAttempts(deps.db, closed, starts)
  await disableGone(deps, ended)
}

/** How long results are kept at hand while the database is away; after that their attempts count as interrupted. */
const KEEP_MS = 20_000
const AGAIN_MS = 500

/** `settleAttempts`, again while the database is away: what was delivered need not be sent twice. */
export async function settlePatiently(deps: WebhookDeps, ended: readonly Ended[]): Promise<void> {
  for (const since = Date.now(); ;) {
    try {
      await settleAttempts(deps, ended)
      return
    } catch (err) {
      if (Date.now() - since > KEEP_MS) throw err
      deps.log.warn({ err, attempts: ended.length }, 'results of deliveries wait for the database')
      await sleep(AGAIN_MS)
    }
  }
}

/** Closes attempts whose sender died. Their deliveries go on by the schedule as after any failure. */
export async function settleInterrupted(
  { db, now }: WebhookDeps,
  interrupted: readonly Interrupted[],
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
  await closeAttempts(db, closed, starts)
}

async function disableGone({ db, log }: WebhookDeps, ended: readonly Ended[]): Promise<void> {
  const gone = ended.filter(({ sent }) => sent.verdict.disablesEndpoint)
  for (const endpointId of new Set(gone.map(({ opened }) => opened.delivery.endpoint_id))) {
    await db.transaction().execute(async (trx) => {
      if (!(await disableGoneEndpoint(trx, endpointId))) return
      await cancelDeliveries(trx, endpointId)
      log.info({ webhook_endpoint_id: endpointId }, 'a webhook endpoint answered 410 and is disabled')
    })
  }
}
