import type { IncomingMessage } from 'node:http'
import { type ApiError, temporaryError } from '../../../domain/errors.ts'
import type { Config } from '../../../platform/config.ts'
import { RemoteAddresses } from '../../../platform/remote-address.ts'
import { RateLimiter } from '../rate-limit.ts'

/** The burst, in seconds of the sustained rate. */
const BURST_S = 5

/**
 * Limits requests without a valid credential per client address, and so the lookups that they cause. Requests with a
 * valid credential don't count.
 */
export class UnauthenticatedRequests {
  readonly #addresses: RemoteAddresses
  readonly #limiter: RateLimiter | undefined

  constructor({
    HEARTH_ADDRESS_RATE: perSecond,
    HEARTH_TRUSTED_PROXIES: proxies,
  }: Pick<Config, 'HEARTH_ADDRESS_RATE' | 'HEARTH_TRUSTED_PROXIES'>) {
    this.#addresses = new RemoteAddresses(proxies)
    this.#limiter = perSecond > 0 ? new RateLimiter({ perSecond, burst: perSecond * BURST_S }) : undefined
  }

  /** Throws `rate_limited` when this address has sent too many requests without a valid credential. */
  check(req: IncomingMessage): void {
    const wait = this.#limiter?.waitOf(this.#addresses.of(req)) ?? 0
    if (wait > 0) throw tooMany(wait)
  }

  /** Counts a request without a valid credential. */
  count(req: IncomingMessage): void {
    this.#limiter?.spend(this.#addresses.of(req))
  }

  /** Returns the error for a request without a valid credential: `err`, or `rate_limited` after too many. */
  refuse(req: IncomingMessage, err: ApiError): ApiError {
    const wait = this.#limiter?.waitOf(this.#addresses.of(req)) ?? 0
    if (wait > 0) return tooMany(wait)
    this.count(req)
    return err
  }
}

const tooMany = (wait: number): ApiError =>
  temporaryError('rate_limited', `too many requests without a valid credential; try again in ${wait} s`, wait)
