import { isIP } from 'node:net'
import { LRUCache } from 'lru-cache'
import { Pool } from 'undici'
import { type LOOKUP_LIMITS, NameLookup, type HostResolver } from './name-lookup.ts'
import { type Destination, type EgressPolicy, EgressRefused, type EgressReason } from './policy.ts'
import { type Answer, exchange, ExchangeAborted, type PublicRequest, Deadline } from './public-exchange.ts'

/** The time limit for an exchange, from the DNS look-up to the end of the response. */
const EXCHANGE_TIMEOUT_MS = 15_000
const CONNECT_TIMEOUT_MS = 5_000
const MAX_POOLS = 1_000
/** A pool that has been idle for this long is closed with its connections. */
const POOL_IDLE_TIMEOUT_MS = 60_000

/** The reasons for a missing response. The destination's owner may see them, so the vocabulary is closed. */
export type SendFailure =
  | EgressReason
  | 'name_not_resolved'
  | 'connect_failed'
  | 'connect_timeout'
  | 'tls_failed'
  | 'timeout'
  | 'connection_closed'
  | 'invalid_answer'
  | 'aborted'

/** An exchange without a response. `cause` is for operators. */
export class SendError extends Error {
  override readonly name = 'SendError'
  readonly reason: SendFailure
  constructor(reason: SendFailure, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.reason = reason
  }
}

/**
 * Sends requests to user-supplied addresses under the egress policy. The name is resolved for each exchange, and one
 * unsafe address blocks the exchange. We connect to the checked addresses, and use the name for TLS and Host. An idle
 * connection is reused only while its address is in the latest result. We follow no redirects and use no proxy; time
 * and size are bounded.
 */
export class PublicSender implements AsyncDisposable {
  readonly #policy: EgressPolicy
  readonly #names: NameLookup
  readonly #exchangeMs: number
  readonly #pools = new LRUCache<string, Pool>({
    max: MAX_POOLS,
    ttl: POOL_IDLE_TIMEOUT_MS,
    ttlAutopurge: true,
    updateAgeOnGet: true,
    // Requests in flight end at their own deadline.
    dispose: (pool) => void pool.close().catch(() => {}),
  })

  constructor(
    policy: EgressPolicy,
    resolve?: HostResolver,
    {
      exchangeMs = EXCHANGE_TIMEOUT_MS,
      ...limits
    }: Partial<typeof LOOKUP_LIMITS> & { exchangeMs?: number } = {},
  ) {
    this.#policy = policy
    this.#names = new NameLookup(resolve, limits)
    this.#exchangeMs = exchangeMs
  }

  /** Sends one request. Throws `SendError`; every status, including redirects, counts as a response. */
  async send(url: string, outgoing: PublicRequest): Promise<Answer> {
    using deadline = new Deadline(this.#exchangeMs, outgoing.signal)
    try {
      const destination = this.#policy.parse(url)
      const addresses = await deadline.with(this.#resolved(destination, outgoing.owner))
      return await this.#sendToFirst(destination, addresses, { outgoing, deadline })
    } catch (err) {
      throw toSendError(err)
    }
  }

  async #resolved(destination: Destination, owner: string): Promise<string[]> {
    const addresses = await this.#names.addressesOf(destination.hostname, owner).catch((err: unknown) => {
      throw new SendError('name_not_resolved', 'the host name could not be resolved', err)
    })
    if (addresses.length === 0) throw new SendError('name_not_resolved', 'the host name has no address')
    this.#policy.checkAddresses(destination, addresses)
    return addresses
  }

  /** Tries the addresses in order, moving to the next one only if nothing was sent to the previous one. */
  async #sendToFirst(
    destination: Destination,
    addresses: string[],
    { outgoing, deadline }: { outgoing: PublicRequest; deadline: Deadline },
  ): Promise<Answer> {
    const { pathname, search } = destination.url
    let failure: unknown
    for (const address of addresses) {
      try {
        return await exchange(this.#pool(destination, address), pathname + search, outgoing, deadline)
      } catch (err) {
        failure = err
        if (!isConnectFailure(err)) break
      }
    }
    throw failure
  }

  #pool(destination: Destination, address: string): Pool {
    const key = `${destination.url.host}|${address}`
    const known = this.#pools.get(key)
    if (known) return known
    const pool = new Pool(destination.url.origin, {
      // No limit here: callers limit the connections per destination, and destinations that share a host, such as those
      // of a relay, must not wait for each other.
      connections: null,
      pipelining: 1,
      allowH2: false,
      // Each exchange has its own deadline.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: {
        timeout: CONNECT_TIMEOUT_MS,
        servername: destination.hostname,
        autoSelectFamily: false,
        lookup: (_hostname, options, callback) => {
          const family = isIP(address)
          if (options.all) callback(null, [{ address, family }])
          else callback(null, address, family)
        },
      },
    })
    this.#pools.set(key, pool)
    return pool
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const pools = [...this.#pools.values()]
    this.#pools.clear()
    await Promise.allSettled(pools.map((pool) => pool.destroy()))
  }
}

const codeOf = (err: unknown): string => (err as { code?: string } | undefined)?.code ?? ''

const CONNECT_CODES = new Set(['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'EADDRNOTAVAIL', 'ETIMEDOUT'])
const isConnectFailure = (err: unknown): boolean =>
  CONNECT_CODES.has(codeOf(err)) || codeOf(err) === 'UND_ERR_CONNECT_TIMEOUT'

export function toSendError(err: unknown): SendError {
  if (err instanceof SendError) return err
  if (err instanceof EgressRefused) return new SendError(err.reason, err.message)
  if (err instanceof ExchangeAborted)
    return err.reason === 'aborted'
      ? new SendError('aborted', 'the exchange was aborted', err)
      : new SendError('timeout', 'no complete response within 15 s', err)
  const code = codeOf(err)
  if (code === 'UND_ERR_CONNECT_TIMEOUT')
    return new SendError('connect_timeout', 'no connection within 5 s', err)
  if (CONNECT_CODES.has(code))
    return new SendError('connect_failed', 'the connection was refused or not routed', err)
  if (/CERT|TLS|SSL|SELF_SIGNED|ALTNAME|UNABLE_TO_/.test(code))
    return new SendError('tls_failed', 'a TLS connection could not be established', err)
  if ((err as Error).name === 'HTTPParserError' || /OVERFLOW|UND_ERR_RESPONSE/.test(code))
    return new SendError('invalid_answer', 'the response was not valid HTTP', err)
  return new SendError('connection_closed', 'the connection closed before the response was complete', err)
}
