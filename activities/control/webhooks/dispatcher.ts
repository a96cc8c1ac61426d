import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import * as attemptRepository from '../../../db/repositories/webhooks/attempts.ts'
import type { OpenedAttempt } from '../../../db/repositories/webhooks/attempts.ts'
import { emit } from '../events.ts'
import type { WebhookDeps } from './deps.ts'
import { secretsFor } from './secrets.ts'
import { makeAttempt } from './send.ts'
import { type CompletedAttempt, settleWithRetry } from './settle.ts'

/** Maximum first attempts in flight to one endpoint, so that a slow or dead endpoint delays only itself. */
const PER_ENDPOINT = 16
/**
 * Maximum first attempts in flight to an endpoint whose last attempt failed or was slow, and to all such endpoints
 * together.
 */
const PER_SLOW_ENDPOINT = 4
const SLOW_IN_FLIGHT = 192
const SLOW_ATTEMPT_MS = 5_000
const MAX_SLOW = 10_000
/** Maximum first attempts in flight to all endpoints of one account, so that no account can use all capacity. */
const PER_ACCOUNT = 192
const IN_FLIGHT = 512
/** Attempts that end within this time of each other are recorded together. */
const SETTLE_DELAY_MS = 5

/**
 * Makes first attempts: sends the deliveries that it picks and records the results in groups. One instance lives as
 * long as its worker, so its list of slow endpoints and its attempts in flight outlive a shift.
 */
export class Dispatcher {
  readonly #deps: WebhookDeps
  /** Attempts in flight, by endpoint. */
  readonly #busy = new Map<string, { accountId: string; count: number }>()
  readonly #sending = new Set<Promise<void>>()
  /** Endpoints whose last attempt failed or was slow. */
  readonly #slow = new LRUCache<string, true>({ max: MAX_SLOW })
  readonly #stop = new AbortController()
  #ended: CompletedAttempt[] = []
  #settling: Promise<void> | undefined
  #isWoken = false
  #onWake: (() => void) | undefined

  constructor(deps: WebhookDeps) {
    this.#deps = deps
    // Each attempt in flight adds a listener, so lift Node's warning limit.
    setMaxListeners(0, this.#stop.signal)
  }

  /** Starts as many attempts as capacity allows, and returns how many it started. */
  async pick(): Promise<number> {
    const limit = this.#stop.signal.aborted ? 0 : IN_FLIGHT - this.#sending.size
    if (limit <= 0) return 0
    const picked = await attemptRepository.pickFreshDeliveries(this.#deps.db, {
      busy: [...this.#busy].map(([endpointId, one]) => ({ endpointId, ...one })),
      perEndpoint: PER_ENDPOINT,
      perAccount: PER_ACCOUNT,
      slow: [...this.#slow.keys()],
      perSlowEndpoint: PER_SLOW_ENDPOINT,
      perAllSlow: SLOW_IN_FLIGHT,
      limit,
      now: this.#deps.now(),
    })
    if (picked.length === 0) return 0
    const secretsOf = await secretsFor(this.#deps, picked)
    for (const opened of picked) this.#start(opened, () => secretsOf(opened))
    return picked.length
  }

  /** Signals that deliveries may be ready. */
  wake(): void {
    this.#isWoken = true
    this.#onWake?.()
  }

  /** Waits for `wake`, for at most `ms`. */
  async woken(ms: number): Promise<void> {
    if (!this.#isWoken) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#onWake = resolve
      const timer = setTimeout(resolve, ms)
      await promise
      clearTimeout(timer)
    }
    this.#isWoken = false
  }

  /** Aborts the attempts in flight and records their outcomes, because the process is about to end. */
  async stop(): Promise<void> {
    this.#stop.abort()
    while (this.#sending.size > 0 || this.#settling) await Promise.all([...this.#sending, this.#settling])
  }

  #start(opened: OpenedAttempt, secrets: () => string[]): void {
    const { endpoint_id: endpointId, account_id: accountId } = opened.delivery
    this.#busy.set(endpointId, { accountId, count: (this.#busy.get(endpointId)?.count ?? 0) + 1 })
    const began = performance.now()
    const sending = makeAttempt(this.#deps, opened, { secrets, signal: this.#stop.signal }).then((sent) => {
      this.#ended.push({ opened, sent })
      const isQuick = sent.verdict.outcome === 'succeeded' && performance.now() - began < SLOW_ATTEMPT_MS
      if (isQuick) this.#slow.delete(endpointId)
      else this.#slow.set(endpointId, true)
      const remaining = (this.#busy.get(endpointId)?.count ?? 1) - 1
      if (remaining > 0) this.#busy.set(endpointId, { accountId, count: remaining })
      else this.#busy.delete(endpointId)
      this.#sending.delete(sending)
      this.wake()
      this.#settling ??= this.#settle()
    })
    this.#sending.add(sending)
  }

  async #settle(): Promise<void> {
    await sleep(SETTLE_DELAY_MS)
    while (this.#ended.length > 0) {
      const ended = this.#ended.splice(0)
      try {
        await settleWithRetry(this.#deps, ended)
      } catch (err) {
        // These attempts stay open until their sender is considered dead; the dispatcher then closes them as
        // interrupted.
        emit(this.#deps.log, 'webhook.settle_failed', { err, attempts: ended.length })
      }
    }
    this.#settling = undefined
  }
}
