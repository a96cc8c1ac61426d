import { type Dispatcher, Pool } from 'undici'
import { backoff } from '../../platform/async/retry.ts'

/** After this many failures without a success in between, a server is due for a probe. */
const MIN_FAILURES = 5
/** The pauses after probes that prove no fault: a model may fail every input of one caller for reasons of the input. */
const PROBE_DELAY_MS = { first: 10_000, longest: 300_000 }
/** A server that is too busy to take a request says so with this status. */
const OVERLOADED = 503

/** The connections to a model server. They count the answers that blame the server, since its last success. */
export class WatchedPool extends Pool {
  #failures = 0
  #postponed = 0
  #isProbing = false
  #nextProbeAt = 0
  #isSuspect = false

  /** True when only a probe can tell whether the server is broken or its callers send inputs that it fails on. */
  get needsProbe(): boolean {
    return this.#failures >= MIN_FAILURES && performance.now() >= this.#nextProbeAt
  }

  /** True from a probe without an answer until the next success: being busy no longer excuses a silent health check. */
  get isSuspect(): boolean {
    return this.#isSuspect
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    if (options.method === 'POST') this.#watch(handler)
    return super.dispatch(options, handler)
  }

  /** Runs a probe that goes through this pool. One that resolves postpones the next one. */
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

  /** Notes that a probe got no answer in time, which proves nothing. */
  suspect(): void {
    this.#isSuspect = true
    this.#postpone()
  }

  /** Each time by twice as long. */
  #postpone(): void {
    this.#nextProbeAt = performance.now() + backoff(this.#postponed++, PROBE_DELAY_MS)
  }

  /** A wrapper would have to pass on every event of undici's handlers, so the one event is replaced. */
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
