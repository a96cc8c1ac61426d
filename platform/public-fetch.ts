import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { LRUCache } from 'lru-cache'
import { Pool } from 'undici'
import { type Destination, type EgressPolicy, EgressRefused, type EgressReason } from './egress-policy.ts'

const RESOLVE_MS = 5_000
const CONNECT_MS = 5_000
const EXCHANGE_MS = 15_000
const MAX_ANSWER_BYTES = 64 * 1024
const MAX_CONNECTIONS_PER_ADDRESS = 16
const MAX_POOLS = 1_000
/** A pool nobody used for this long is closed with its connections. */
const POOL_IDLE_MS = 60_000

/** Why no answer came: a closed vocabulary, safe to show to the owner of the destination. */
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

/** An exchange that brought no answer. `cause` is for operators. */
export class SendError extends Error {
  override readonly name = 'SendError'
  readonly reason: SendFailure
  constructor(reason: SendFailure, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.reason = reason
  }
}

export interface Outgoing {
  method: 'GET' | 'POST'
  headers: Record<string, string>
  body?: Buffer
  signal?: AbortSignal
}

export interface Answer {
  status: number
  headers: Record<string, string | string[] | undefined>
  /** At most the first 64 KB. */
  body: Buffer
}

type Resolve = (hostname: string) => Promise<string[]>

/** System resolver, so that hosts files and split DNS hold; both families, in the resolver's order. */
const resolveBySystem: Resolve = async (hostname) =>
  (await lookup(hostname, { all: true, order: 'verbatim' })).map(({ address }) => address)

/**
 * Sends to user-given addresses under the egress policy (design 10.8): the name is resolved for each exchange, any unsafe answer
 * refuses it, the connection goes to the checked addresses with the name kept for TLS and Host, and a kept connection
 * is used again only while its address is in the fresh answer. No redirects, no proxy environment; time and size bounded.
 */
export class PublicSender implements AsyncDisposable {
  readonly #policy: EgressPolicy
  readonly #resolve: Resolve
  readonly #pools = new LRUCache<string, Pool>({
    max: MAX_POOLS,
    ttl: POOL_IDLE_MS,
    ttlAutopurge: true,
    updateAgeOnGet: true,
    // What is still in flight ends by its own deadline.
    dispose: (pool) => void pool.close().catch(() => {}),
  })

  constructor(policy: EgressPolicy, resolve: Resolve = resolveBySystem) {
    this.#policy = policy
    this.#resolve = resolve
  }

  /** One exchange. Throws `SendError`; every status, redirects included, is an answer. */
  async send(url: string, outgoing: Outgoing): Promise<Answer> {
    const deadline = AbortSignal.timeout(EXCHANGE_MS)
    const signal = outgoing.signal ? AbortSignal.any([deadline, outgoing.signal]) : deadline
    try {
      const destination = this.#policy.parse(url)
      const addresses = await this.#resolved(destination, signal)
      return await this.#sendToFirst(destination, addresses, { ...outgoing, signal })
    } catch (err) {
      throw toSendError(err, { deadline, caller: outgoing.signal })
    }
  }

  async #resolved(destination: Destination, signal: AbortSignal): Promise<string[]> {
    const addresses = await withinTime(this.#resolve(destination.hostname), signal).catch((err: unknown) => {
      throw new SendError('name_not_resolved', 'the host name could not be resolved', err)
    })
    if (addresses.length === 0) throw new SendError('name_not_resolved', 'the host name has no address')
    this.#policy.checkAddresses(destination, addresses)
    return addresses
  }

  /** The next address is tried only when nothing was sent to the one before. */
  async #sendToFirst(destination: Destination, addresses: string[], outgoing: Outgoing): Promise<Answer> {
    let failure: unknown
    for (const address of addresses) {
      try {
        return await exchange(this.#pool(destination, address), destination, outgoing)
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
      connections: MAX_CONNECTIONS_PER_ADDRESS,
      pipelining: 1,
      headersTimeout: EXCHANGE_MS,
      bodyTimeout: EXCHANGE_MS,
      connect: {
        timeout: CONNECT_MS,
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

async function exchange(pool: Pool, { url }: Destination, outgoing: Outgoing): Promise<Answer> {
  const { statusCode, headers, body } = await pool.request({
    path: `${url.pathname}${url.search}`,
    method: outgoing.method,
    headers: outgoing.headers,
    ...(outgoing.body && { body: outgoing.body }),
    signal: outgoing.signal ?? null,
  })
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    size += chunk.length
    // Enough is known: leaving the loop closes the connection.
    if (size >= MAX_ANSWER_BYTES) break
  }
  return { status: statusCode, headers, body: Buffer.concat(chunks).subarray(0, MAX_ANSWER_BYTES) }
}

async function withinTime<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('the resolver took too long')), RESOLVE_MS)
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
  })
  try {
    return await Promise.race([work, limit])
  } finally {
    clearTimeout(timer)
  }
}

const codeOf = (err: unknown): string => (err as { code?: string } | undefined)?.code ?? ''

const CONNECT_CODES = new Set(['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'EADDRNOTAVAIL', 'ETIMEDOUT'])
const isConnectFailure = (err: unknown): boolean =>
  CONNECT_CODES.has(codeOf(err)) || codeOf(err) === 'UND_ERR_CONNECT_TIMEOUT'

function toSendError(
  err: unknown,
  { deadline, caller }: { deadline: AbortSignal; caller: AbortSignal | undefined },
): SendError {
  if (err instanceof SendError) return err
  if (err instanceof EgressRefused) return new SendError(err.reason, err.message)
  if (caller?.aborted) return new SendError('aborted', 'the exchange was given up', err)
  if (deadline.aborted) return new SendError('timeout', 'no complete answer within 15 s', err)
  const code = codeOf(err)
  if (code === 'UND_ERR_CONNECT_TIMEOUT')
    return new SendError('connect_timeout', 'no connection within 5 s', err)
  if (CONNECT_CODES.has(code))
    return new SendError('connect_failed', 'the connection was refused or not routed', err)
  if (/CERT|TLS|SSL|SELF_SIGNED|ALTNAME|UNABLE_TO_/.test(code))
    return new SendError('tls_failed', 'TLS could not be established', err)
  if (/HEADERS_TIMEOUT|BODY_TIMEOUT/.test(code))
    return new SendError('timeout', 'no complete answer within 15 s', err)
  if ((err as Error).name === 'HTTPParserError' || /OVERFLOW|UND_ERR_RESPONSE/.test(code))
    return new SendError('invalid_answer', 'the answer was not valid HTTP', err)
  return new SendError('connection_closed', 'the connection closed before the answer was complete', err)
}
