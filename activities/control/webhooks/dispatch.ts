import { setTimeout as sleep } from 'node:timers/promises'
import { activityInfo, cancellationSignal, heartbeat } from '@temporalio/activity'
import { LRUCache } from 'lru-cache'
import pg from 'pg'
import {
  closeAbandonedAttempts,
  findInterrupted,
  type OpenedAttempt,
  pickFreshDeliveries,
} from '../../../db/repositories/webhook-attempts.ts'
import { WEBHOOK_CHANNEL } from '../../../db/repositories/webhook-deliveries.ts'
import { cancelStrandedDeliveries, expireDeliveries } from '../../../db/repositories/webhook-endings.ts'
import { failLapsedVerifications } from '../../../db/repositories/webhook-verifications.ts'
import { required } from '../../../platform/config.ts'
import type { WebhookDeps } from './deps.ts'
import { secretsFor } from './secrets.ts'
import { makeAttempt } from './send.ts'
import { type Ended, settleInterrupted, settlePatiently } from './settle.ts'

/** First attempts under way to one destination: a slow or dead one holds up only itself. */
const PER_ENDPOINT = 16
/** To one whose last attempt failed or took long: many of them together must leave room for the others. */
const PER_SLOW_ENDPOINT = 4
const SLOW_MS = 5_000
const MAX_SLOW = 10_000
const IN_FLIGHT = 512
const POLL_MS = 500
const CLEAN_MS = 5_000
/** What ends within this time of each other is recorded together. */
const SETTLE_MS = 5
/** One batch; the workflow then asks for the next, so that its history stays short. */
const SHIFT_MS = 5 * 60_000

/** Makes the first attempt of every fresh delivery for a while; other attempts belong to `webhookDelivery`. */
export async function dispatchFor(deps: WebhookDeps, shiftMs = SHIFT_MS): Promise<void> {
  const wake = await wakeOnNotify(deps)
  const signal = cancellationSignal()
  const dispatcher = new Dispatcher(deps, whenShutDown(signal))
  const end = Date.now() + Math.min(shiftMs, activityInfo().startToCloseTimeoutMs / 2)
  try {
    for (let cleanAt = 0; Date.now() < end && !signal.aborted;) {
      heartbeat()
      if (Date.now() >= cleanAt) {
        cleanAt = Date.now() + CLEAN_MS
        await clean(deps)
      }
      const picked = await dispatcher.pick()
      if (picked === 0)
        await Promise.race([wake.next(), dispatcher.roomMade(), sleep(POLL_MS, undefined, { ref: false })])
    }
  } finally {
    await dispatcher.idle()
    await wake.close()
  }
}

/** Sends what it picks, and records the results in groups. */
class Dispatcher {
  readonly #deps: WebhookDeps
  readonly #busy = new Map<string, number>()
  readonly #sending = new Set<Promise<void>>()
  /** Destinations whose last attempt failed or took long. */
  readonly #slow = new LRUCache<string, true>({ max: MAX_SLOW })
  readonly #shutdown: AbortSignal
  #ended: Ended[] = []
  #settling: Promise<void> | undefined
  #onRoom: (() => void) | undefined

  constructor(deps: WebhookDeps, shutdown: AbortSignal) {
    this.#deps = deps
    this.#shutdown = shutdown
  }

  /** Starts what there is room for; gives how much that was. */
  async pick(): Promise<number> {
    const limit = IN_FLIGHT - this.#sending.size
    if (limit <= 0) return 0
    const picked = await pickFreshDeliveries(this.#deps.db, {
      busy: this.#busy,
      perEndpoint: PER_ENDPOINT,
      slow: [...this.#slow.keys()],
      perSlowEndpoint: PER_SLOW_ENDPOINT,
      limit,
      now: this.#deps.now(),
    })
    if (picked.length === 0) return 0
    const secretsOf = await secretsFor(this.#deps, picked)
    for (const opened of picked) this.#start(opened, () => secretsOf(opened))
    return picked.length
  }

  #start(opened: OpenedAttempt, secrets: () => string[]): void {
    const { endpoint_id } = opened.delivery
    this.#busy.set(endpoint_id, (this.#busy.get(endpoint_id) ?? 0) + 1)
    const began = performance.now()
    const sending = makeAttempt(this.#deps, opened, { secrets, signal: this.#shutdown }).then((sent) => {
      this.#ended.push({ opened, sent })
      const isQuick = sent.verdict.outcome === 'succeeded' && performance.now() - began < SLOW_MS
      if (isQuick) this.#slow.delete(endpoint_id)
      else this.#slow.set(endpoint_id, true)
      const left = (this.#busy.get(endpoint_id) ?? 1) - 1
      if (left > 0) this.#busy.set(endpoint_id, left)
      else this.#busy.delete(endpoint_id)
      this.#sending.delete(sending)
      this.#onRoom?.()
      this.#settling ??= this.#settle()
    })
    this.#sending.add(sending)
  }

  async #settle(): Promise<void> {
    await sleep(SETTLE_MS)
    while (this.#ended.length > 0) {
      const ended = this.#ended.splice(0)
      try {
        await settlePatiently(this.#deps, ended)
      } catch (err) {
        // Left open, they are closed as interrupted once their time is up, by whoever dispatches then.
        this.#deps.log.error({ err, attempts: ended.length }, 'results of deliveries were not recorded')
      }
    }
    this.#settling = undefined
  }

  roomMade(): Promise<void> {
    return new Promise((resolve) => {
      this.#onRoom = resolve
    })
  }

  async idle(): Promise<void> {
    while (this.#sending.size > 0 || this.#settling) {
      await Promise.all([...this.#sending, this.#settling])
    }
  }
}

/** Aborts when the worker is told to stop; a cancel for any other reason lets what is being sent come to its end. */
function whenShutDown(cancelled: AbortSignal): AbortSignal {
  const controller = new AbortController()
  const look = () => {
    if (String((cancelled.reason as Error | undefined)?.message).includes('SHUTDOWN')) controller.abort()
  }
  if (cancelled.aborted) look()
  else cancelled.addEventListener('abort', look, { once: true })
  return controller.signal
}

/** Ends what died with its sender, outlived its deadline or window, or lost its destination. */
async function clean({ db, now, ...rest }: WebhookDeps): Promise<void> {
  const at = now()
  const interrupted = await findInterrupted(db, at, 500)
  if (interrupted.length > 0) await settleInterrupted({ db, now, ...rest }, interrupted)
  await closeAbandonedAttempts(db, at)
  await cancelStrandedDeliveries(db, at)
  await expireDeliveries(db, at)
  await failLapsedVerifications(db, at)
}

/** A connection of its own that hears of fresh deliveries; when it breaks, polling goes on. */
async function wakeOnNotify({ config, log }: WebhookDeps) {
  const client = new pg.Client({ connectionString: required(config, 'DATABASE_URL') })
  let heard = false
  let resolve: (() => void) | undefined
  client.on('error', (err) =>
    log.warn({ err }, 'the webhook dispatcher polls: its listening connection broke'),
  )
  client.on('notification', () => {
    heard = true
    resolve?.()
  })
  await client.connect()
  await client.query(`listen ${WEBHOOK_CHANNEL}`)
  return {
    async next(): Promise<void> {
      if (!heard) await new Promise<void>((done) => (resolve = done))
      heard = false
    },
    close: () => client.end().catch(() => {}),
  }
}
