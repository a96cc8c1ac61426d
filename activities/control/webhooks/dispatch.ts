import { activityInfo, cancellationSignal, heartbeat } from '@temporalio/activity'
import { Listener } from '../../../db/listener.ts'
import * as attemptRepository from '../../../db/repositories/webhooks/attempts.ts'
import * as deliveryRepository from '../../../db/repositories/webhooks/deliveries.ts'
import * as deliveryEndingRepository from '../../../db/repositories/webhooks/endings.ts'
import * as fanOutRepository from '../../../db/repositories/webhooks/fan-out.ts'
import * as verificationRepository from '../../../db/repositories/webhooks/verifications.ts'
import { required } from '../../../platform/config.ts'
import { emit } from '../events.ts'
import type { WebhookDeps } from './deps.ts'
import type { Dispatcher } from './dispatcher.ts'
import { settleInterrupted } from './settle.ts'

const POLL_INTERVAL_MS = 500
const CLEAN_INTERVAL_MS = 5_000
/** The length of one shift. The workflow runs one activity per shift, which keeps its history short. */
const SHIFT_DURATION_MS = 5 * 60_000

/**
 * Fans out events into deliveries and makes the first attempt of each, for one shift; later attempts belong to
 * `webhookDelivery`. Attempts in flight at the end of a shift continue during the next one, so that a hanging
 * destination does not delay others.
 */
export async function dispatchFor(
  deps: WebhookDeps,
  dispatcher: Dispatcher,
  shiftMs = SHIFT_DURATION_MS,
): Promise<void> {
  const signal = cancellationSignal()
  const wake = () => dispatcher.wake()
  signal.addEventListener('abort', wake)
  await using listener = new Listener(required(deps.config, 'DATABASE_URL'), {
    channel: deliveryRepository.WEBHOOK_CHANNEL,
    onNotify: wake,
    onGap: wake,
    onError: (err) => emit(deps.log, 'webhook.notify_lost', { err }),
  })
  void listener.start()
  // Both the shift's end and the cleaning interval use the monotonic clock, which does not jump when the time is set.
  const end = performance.now() + Math.min(shiftMs, activityInfo().startToCloseTimeoutMs / 2)
  for (let cleanAt = 0; performance.now() < end && !signal.aborted;) {
    heartbeat()
    if (performance.now() >= cleanAt) {
      cleanAt = performance.now() + CLEAN_INTERVAL_MS
      await clean(deps)
    }
    const fannedOut = await fanOutRepository.fanOutEvents(deps.db)
    if ((await dispatcher.pick()) === 0 && fannedOut === 0) await dispatcher.woken(POLL_INTERVAL_MS)
  }
  if (isShutdown(signal)) await dispatcher.stop()
}

/**
 * Returns whether the worker is shutting down. After a cancellation for any other reason, attempts in flight may
 * complete.
 */
const isShutdown = ({ aborted, reason }: AbortSignal): boolean =>
  aborted && String((reason as Error | undefined)?.message).includes('SHUTDOWN')

/** Closes attempts whose sender died, and ends deliveries that are past their deadline or whose endpoint is gone. */
async function clean({ db, now, ...rest }: WebhookDeps): Promise<void> {
  const at = now()
  const interrupted = await attemptRepository.findInterrupted(db, at, 500)
  if (interrupted.length > 0) await settleInterrupted({ db, now, ...rest }, interrupted)
  await attemptRepository.closeAbandonedAttempts(db, at)
  await fanOutRepository.drainOverflow(db)
  await deliveryEndingRepository.cancelStrandedDeliveries(db, at)
  await deliveryEndingRepository.expireDeliveries(db, at)
  await verificationRepository.failExpiredVerifications(db, at)
}
