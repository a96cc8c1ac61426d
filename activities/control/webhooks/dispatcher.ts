import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import { type OpenedAttempt, pickFreshDeliveries } from '../../../db/repositories/webhooks/attempts.ts'
import { emit } from '../events.ts'
import type { WebhookDeps } from './deps.ts'
import { secretsFor } from './secrets.ts'
import { makeAttempt } from './send.ts'
import { type Ended, settlePatiently } from './settle.ts'

/** First attempts under way to one destination: a slow or dead one holds up only itself. */
const PER_ENDPOINT = 16
/** To one whose last attempt failed or took long, and to all of those together. */
const PER_SLOW_ENDPOINT = 4
const SLOW_IN_FLIGHT = 192
const SLOW_MS = 5_000
const MAX_SLOW = 10_000
/** To all destinations of one account, however many it has: those of the others keep their room. */
const PER_ACCOUNT = 192
const IN_FLIGHT = 512
/** What ends within this time of each other is recorded together. */
const SETTLE_MS = 5

/**
 * Makes first attempts: sends what it picks, and records the results in groups. One for the whole life of a worker, so that
 * what it knows of slow destinations, and what it is still sending, outlive a shift.
 */
export class Dispatcher {
  readonly #deps: WebhookDeps
  /** Attempts under way, by destination. */
  readonly #busy = new Map<string, { accountId: string; count: number }>()
  readonly #sending = new Set<Promise<void>>()
  /** Destinations whose last attempt failed or took long. */
  readonly #slow = new LRUCache<string, true>({ max: MAX_SLOW })
  readonly #stop = new AbortController()
  #ended: Ended[] = []
  #settling: Promise<void> | undefined
  #isRung = false
  #onRing: (() => void) | undefined

  constructor(deps: WebhookDeps) {
    this.#deps = deps
    // One for each attempt under way.
    setMaxListeners(0, this.#stop.signal)
  }

  /** Starts what there is room for; gives how much that was. */
  async pick(): Promise<number> {
    const limit = this.#stop.signal.aborted ? 0 : IN_FLIGHT - this.#sending.size
    if (limit <= 0) return 0
    const picked = await pickFreshDeliveries(this.#deps.db, {
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

  /** There may be something to pick. */
  wake(): void {
    this.#isRung = true
    this.#onRing?.()
  }

  /** Waits until there may be something to pick, for `ms` at most. */
  async woken(ms: number): Promise<void> {
    if (!this.#isRung) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#onRing = resolve
      const timer = setTimeout(resolve, ms)
      await promise
      clearTimeout(timer)
    }
    this.#isRung = false
  }

  /** Gives up what is being sent, for its process is about to end, and records that. */
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
      const isQuick = sent.verdict.outcome === 'succeeded' && performance.now() - began < SLOW_MS
      if (isQuick) this.#slow.delete(endpointId)
      else this.#slow.set(endpointId, true)
      const left = (this.#busy.get(endpointId)?.count ?? 1) - 1
      if (left > 0) this.#busy.set(endpointId, { accountId, count: left })
      else this.#busy.delete(endpointId)
      this.#sending.delete(sending)
      this.wake()
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
        emit(this.#deps.log, 'webhook.settle_failed', { err, attempts: ended.length })
      }
    }
    this.#settling = undefined
  }
}
