import type { IncomingMessage } from 'node:http'
import { type ApiError, tryLater } from '../../domain/errors.ts'
import type { Config } from '../../platform/config.ts'
import { RemoteAddresses } from '../../platform/remote-address.ts'
import { RateLimiter } from './rate-limit.ts'

/** At once, as a multiple of what may be sustained for a second. */
const BURST_S = 5

/**
 * Bounds requests without a valid credential by the address that they come from, so that what strangers cost in look-ups has
 * an end. Requests that turn out to be somebody's are not counted.
 */
export class Strangers {
  readonly #addresses: RemoteAddresses
  readonly #limiter: RateLimiter | undefined

  constructor({
    HEARTH_ADDRESS_RATE: perSecond,
    HEARTH_TRUSTED_PROXIES: proxies,
  }: Pick<Config, 'HEARTH_ADDRESS_RATE' | 'HEARTH_TRUSTED_PROXIES'>) {
    this.#addresses = new RemoteAddresses(proxies)
    this.#limiter = perSecond > 0 ? new RateLimiter({ perSecond, burst: perSecond * BURST_S }) : undefined
  }

  /** Throws `rate_limited` when strangers at this address have sent too much lately. */
  check(req: IncomingMessage): void {
    const wait = this.#limiter?.waitOf(this.#addresses.of(req)) ?? 0
    if (wait > 0) throw tooMany(wait)
  }

  /** Counts a request that was a stranger's. */
  count(req: IncomingMessage): void {
    this.#limiter?.spend(this.#addresses.of(req))
  }

  /** What to answer a stranger: `err`, unless there have been too many. */
  refuse(req: IncomingMessage, err: ApiError): ApiError {
    const wait = this.#limiter?.waitOf(this.#addresses.of(req)) ?? 0
    if (wait > 0) return tooMany(wait)
    this.count(req)
    return err
  }
}

const tooMany = (wait: number): ApiError =>
  tryLater('rate_limited', `too many requests without a valid credential; try again in ${wait} s`, wait)
