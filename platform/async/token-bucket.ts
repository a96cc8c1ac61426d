export interface TokenBucketOptions {
  perSecond: number
  burst: number
}

/** A token bucket with a burst size and a rate per second, driven by the monotonic clock. */
export class TokenBucket {
  readonly #options: TokenBucketOptions
  #left: number
  #at = performance.now()

  constructor(options: TokenBucketOptions) {
    this.#options = options
    this.#left = options.burst
  }

  /** Takes one unit; returns false when the bucket is empty. */
  take(): boolean {
    this.#refill()
    if (this.#left < 1) return false
    this.#left -= 1
    return true
  }

  /** Takes `amount`, even if fewer units are left, and returns the milliseconds until units are available again. */
  spend(amount: number): number {
    this.#refill()
    this.#left -= amount
    return Math.max(0, (-this.#left / this.#options.perSecond) * 1_000)
  }

  #refill(): void {
    const { perSecond, burst } = this.#options
    const now = performance.now()
    this.#left = Math.min(burst, this.#left + ((now - this.#at) / 1_000) * perSecond)
    this.#at = now
  }
}
