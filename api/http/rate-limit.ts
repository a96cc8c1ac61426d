import { temporaryError } from '../../domain/errors.ts'

export interface RateLimit {
  perSecond: number
  burst: number
}

interface Bucket {
  tokens: number
  at: number
}

const SWEEP_ABOVE = 10_000

/** A token bucket per account or address, in this process: `perSecond` on average, `burst` at once. */
export class RateLimiter {
  readonly #limit: RateLimit
  readonly #buckets = new Map<string, Bucket>()

  constructor(limit: RateLimit) {
    this.#limit = limit
  }

  /**
   * Takes one token and appends the rate limit headers to `head` as alternating names and values; throws `rate_limited`
   * if there is no token.
   */
  take(account: string, head: string[], now = performance.now()): void {
    const { perSecond, burst } = this.#limit
    const bucket = this.#bucketOf(account, now)
    this.#fill(bucket, now)

    const isAllowed = bucket.tokens >= 1
    if (isAllowed) bucket.tokens -= 1
    head.push(
      'ratelimit-limit',
      String(burst),
      'ratelimit-remaining',
      String(Math.floor(bucket.tokens)),
      'ratelimit-reset',
      String(Math.ceil((burst - bucket.tokens) / perSecond)),
    )
    if (isAllowed) return

    const wait = Math.max(1, Math.ceil((1 - bucket.tokens) / perSecond))
    throw temporaryError(
      'rate_limited',
      `more than ${perSecond} requests a second; try again in ${wait} s`,
      wait,
    )
  }

  /** Returns the seconds until a token is available; 0 if there is one. */
  waitOf(key: string, now = performance.now()): number {
    const bucket = this.#buckets.get(key)
    if (!bucket) return 0
    this.#fill(bucket, now)
    return bucket.tokens >= 1 ? 0 : Math.max(1, Math.ceil((1 - bucket.tokens) / this.#limit.perSecond))
  }

  /** Takes one token even if there is none; the bucket may go below zero. */
  spend(key: string, now = performance.now()): void {
    const bucket = this.#bucketOf(key, now)
    this.#fill(bucket, now)
    bucket.tokens = Math.max(0, bucket.tokens - 1)
  }

  #fill(bucket: Bucket, now: number): void {
    const { perSecond, burst } = this.#limit
    bucket.tokens = Math.min(burst, bucket.tokens + ((now - bucket.at) / 1000) * perSecond)
    bucket.at = now
  }

  #bucketOf(account: string, now: number): Bucket {
    const known = this.#buckets.get(account)
    if (known) return known
    if (this.#buckets.size >= SWEEP_ABOVE) this.#forgetFull(now)
    const fresh = { tokens: this.#limit.burst, at: now }
    this.#buckets.set(account, fresh)
    return fresh
  }

  /** Drops full buckets, which are equivalent to new ones. */
  #forgetFull(now: number): void {
    const { perSecond, burst } = this.#limit
    for (const [account, { tokens, at }] of this.#buckets) {
      if (tokens + ((now - at) / 1000) * perSecond >= burst) this.#buckets.delete(account)
    }
  }
}
