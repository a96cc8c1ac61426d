import { type Dispatcher, Pool } from 'undici'
import { backoff } from '../../platform/async/retry.ts'
import type { ServerAddress } from './launch.ts'

/** The number of failures in a row after which a server is probed. */
const MIN_FAILURES = 5
/** Pauses after successful probes: one caller's inputs may fail on a working model. */
const PROBE_DELAY_MS = { first: 10_000, longest: 300_000 }
/** The status of a server that is too busy to accept a request. */
const OVERLOADED = 503

/** The connections to a model server. Counts the responses that blame the server since its last success. */
export class WatchedPool extends Pool {
  #failures = 0
  #postponed = 0
  #isProbing = false
  #nextProbeAt = 0
  #isSuspect = false

  /** True if only a probe can show whether the server is broken or its callers send inputs that it fails on. */
  get needsProbe(): boolean {
    return this.#failures >= MIN_FAILURES && performance.now() >= this.#nextProbeAt
  }

  /**
   * True from an unanswered probe until the next success. In that time, being busy does not excuse a silent health
   * check.
   */
  get isSuspect(): boolean {
    return this.#isSuspect
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    if (options.method === 'POST') this.#watch(handler)
    return super.dispatch(options, handler)
  }

  /** Runs a probe through this pool. If it resolves, the next probe is postponed. */
  async probe(send: () => Promise<void>): Promise<void> {
    this.#isProbing = true
    try {
      await send()
      this.#failures = 0
      this.#postpone()
    } finally {
      this.#isProbing = false
    }
  }

  /** Records that a probe got no response in time, which proves nothing. */
  suspect(): void {
    this.#isSuspect = true
    this.#postpone()
  }

  /** Postpones the next probe. The delay doubles each time. */
  #postpone(): void {
    this.#nextProbeAt = performance.now() + backoff(this.#postponed++, PROBE_DELAY_MS)
  }

  /** Replaces a single event: a wrapper would have to forward every event of undici's handlers. */
  #watch(handler: Dispatcher.DispatchHandler): void {
    const onResponseStart = handler.onResponseStart?.bind(handler)
    handler.onResponseStart = (controller, status, headers, text) => {
      this.#note(status)
      onResponseStart?.(controller, status, headers, text)
    }
  }

  #note(status: number): void {
    if (status >= 500 && status !== OVERLOADED) this.#failures++
    if (status !== 200) return
    this.#failures = 0
    this.#isSuspect = false
    if (this.#isProbing) return
    this.#postponed = 0
    this.#nextProbeAt = 0
  }
}

/** The members of a pool that the work of a model uses. */
export type ServerPool = Pick<WatchedPool, 'request' | 'dispatch' | 'needsProbe' | 'isSuspect'>

/** Returns the pool for generations. They have no timeout, because their callers can cancel them. */
export function poolOf(address: ServerAddress, connections: number): WatchedPool {
  const [origin, by] =
    'socket' in address
      ? ['http://localhost', { socketPath: address.socket }]
      : [`http://127.0.0.1:${address.port}`, {}]
  return new WatchedPool(origin, {
    ...by,
    connections,
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: 60_000,
  })
}
