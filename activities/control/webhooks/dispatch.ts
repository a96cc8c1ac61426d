import { activityInfo, cancellationSignal, heartbeat } from '@temporalio/activity'
import { Listener } from '../../../db/listener.ts'
import { closeAbandonedAttempts, findInterrupted } from '../../../db/repositories/webhooks/attempts.ts'
import { WEBHOOK_CHANNEL } from '../../../db/repositories/webhooks/deliveries.ts'
import { cancelStrandedDeliveries, expireDeliveries } from '../../../db/repositories/webhooks/endings.ts'
import { drainOverflow, fanOutEvents } from '../../../db/repositories/webhooks/fan-out.ts'
import { failLapsedVerifications } from '../../../db/repositories/webhooks/verifications.ts'
import { required } from '../../../platform/config.ts'
import { emit } from '../events.ts'
import type { WebhookDeps } from './deps.ts'
import type { Dispatcher } from './dispatcher.ts'
import { settleInterrupted } from './settle.ts'

const POLL_MS = 500
const CLEAN_MS = 5_000
/** One batch; the workflow then asks for the next, so that its history stays short. */
const SHIFT_MS = 5 * 60_000

/**
 * Turns events into deliveries and makes the first attempt of each for a while; other attempts belong to `webhookDelivery`. What is being sent
 * at the end of the shift goes on beside the next one: a destination that hangs keeps nobody waiting.
 */
export async function dispatchFor(
  deps: WebhookDeps,
  dispatcher: Dispatcher,
  shiftMs = SHIFT_MS,
): Promise<void> {
  const signal = cancellationSignal()
  const wake = () => dispatcher.wake()
  signal.addEventListener('abort', wake)
  await using listener = new Listener(required(deps.config, 'DATABASE_URL'), {
    channel: WEBHOOK_CHANNEL,
    onNotify: wake,
    onGap: wake,
    onError: (err) => emit(deps.log, 'webhook.notify_lost', { err }),
  })
  void listener.start()
  // Neither steps with the clock.
  const end = performance.now() + Math.min(shiftMs, activityInfo().startToCloseTimeoutMs / 2)
  for (let cleanAt = 0; performance.now() < end && !signal.aborted;) {
    heartbeat()
    if (performance.now() >= cleanAt) {
      cleanAt = performance.now() + CLEAN_MS
      await clean(deps)
    }
    const fannedOut = await fanOutEvents(deps.db)
    if ((await dispatcher.pick()) === 0 && fannedOut === 0) await dispatcher.woken(POLL_MS)
  }
  if (isShutdown(signal)) await dispatcher.stop()
}

/** Whether the worker was told to stop; a cancel for any other reason lets what is being sent come to its end. */
const isShutdown = ({ aborted, reason }: AbortSignal): boolean =>
  aborted && String((reason as Error | undefined)?.message).includes('SHUTDOWN')

/** Ends what died with its sender, exceeded its deadline or window, or lost its destination. */
async function clean({ db, now, ...rest }: WebhookDeps): Promise<void> {
  const at = now()
  const interrupted = await findInterrupted(db, at, 500)
  if (interrupted.length > 0) await settleInterrupted({ db, now, ...rest }, interrupted)
  await closeAbandonedAttempts(db, at)
  await drainOverflow(db)
  await cancelStrandedDeliveries(db, at)
  await expireDeliveries(db, at)
  await failLapsedVerifications(db, at)
}
