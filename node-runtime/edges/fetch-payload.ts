import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'undici'
import { EdgeError } from '../../domain/cohorts/edge-error.ts'
import { backoff } from '../../platform/async/retry.ts'
import type { PayloadWriter } from './payload-writer.ts'
import type { Payload } from './payload.ts'
import { bearer, edgePath, type EdgePeer } from './pinned-client.ts'
import { pinnedReader } from './pinned-reader.ts'
import { type ExpectedPayload, Reception } from './reception.ts'

const MB = 1024 * 1024
const RETRY_DELAY_MS = { first: 50, longest: 1_000 }
const WATCH_INTERVAL_MS = 1_000

/** The limits beyond which a transfer counts as stalled. */
export interface StallLimits {
  /** How long a working producer may send neither bytes nor a keep-alive. */
  silentMs: number
  /** How long the rate may stay below `slowBytesPerS`. */
  slowMs: number
  slowBytesPerS: number
}

const LIMITS: StallLimits = { silentMs: 10_000, slowMs: 60_000, slowBytesPerS: MB }

interface PayloadRequest {
  method: 'GET'
  path: string
  headers: Record<string, string>
}

export interface FetchOptions extends ExpectedPayload {
  /** The writer that receives the bytes. It can't be used again. */
  writer: PayloadWriter
  signal?: AbortSignal
  limits?: Partial<StallLimits>
}

/** Fetches a payload from the producer's node and verifies it. Resumes after a broken connection. */
export function fetchPayload(peer: EdgePeer, options: FetchOptions): Promise<Payload> {
  return receive(pinnedReader(peer), { path: edgePath(peer), headers: bearer(peer) }, options)
}

/** Fetches a payload from a URL that a gateway has signed, and verifies it like one from a node. */
export async function fetchRelayed(url: string, options: FetchOptions): Promise<Payload> {
  const { origin, pathname, search } = new URL(url)
  const client = new Client(origin, { allowH2: false, headersTimeout: 0, bodyTimeout: 0 })
  try {
    return await receive(client, { path: pathname + search, headers: {} }, options)
  } finally {
    await client.destroy()
  }
}

/** Reads a whole payload over a dispatcher and verifies its digest. Does not follow redirects. */
async function receive(
  dispatcher: { dispatch(request: PayloadRequest, reception: Reception): unknown },
  request: Omit<PayloadRequest, 'method'>,
  { writer, sizeBytes, sha256, signal, limits }: FetchOptions,
): Promise<Payload> {
  await using _writer = writer
  const expected: ExpectedPayload = { sizeBytes, sha256 }
  const watch = new StallWatch({ ...LIMITS, ...limits }, () => writer.bytes)
  using transfer = new Transfer(watch, signal)
  for (let tries = 0; ; tries++) {
    const from = writer.bytes
    const range = from > 0 ? { range: `bytes=${from}-` } : undefined
    const reception = new Reception(writer, expected, () => watch.sign())
    transfer.follow(reception)
    try {
      dispatcher.dispatch({ method: 'GET', ...request, headers: { ...request.headers, ...range } }, reception)
      await reception.done
      return await writer.finish({ sha256: expected.sha256 })
    } catch (err) {
      if (writer.bytes > from) tries = 0
      await transfer.pauseAfter(err, tries)
    }
  }
}

/** Watches one payload over all its connections. */
class Transfer implements Disposable {
  readonly #watch: StallWatch
  readonly #timer: NodeJS.Timeout
  readonly #over = new AbortController()
  readonly #signal: AbortSignal | undefined
  readonly #cancel = () => this.#end(new EdgeError('cancelled', 'the transfer was cancelled'))
  #reception: Reception | undefined

  constructor(watch: StallWatch, signal: AbortSignal | undefined) {
    this.#watch = watch
    this.#signal = signal
    this.#timer = setInterval(() => {
      const stall = watch.check()
      if (stall !== undefined) this.#end(new EdgeError('stalled', stall))
    }, watch.intervalMs)
    if (signal?.aborted) this.#cancel()
    else signal?.addEventListener('abort', this.#cancel)
  }

  follow(reception: Reception): void {
    this.#reception = reception
    reception.done.catch(() => {})
    if (this.#over.signal.aborted) reception.abandon(this.#over.signal.reason as Error)
  }

  /** Waits before the next try, or throws if no further try is allowed. */
  async pauseAfter(err: unknown, tries: number): Promise<void> {
    if (err instanceof EdgeError) throw err
    if (!this.#watch.hasBegun)
      throw new EdgeError('unreachable', `no connection: ${(err as Error).message}`, { cause: err })
    await sleep(backoff(tries, RETRY_DELAY_MS), undefined, { signal: this.#over.signal }).catch(() => {
      throw this.#over.signal.reason as Error
    })
  }

  #end(why: EdgeError): void {
    this.#over.abort(why)
    this.#reception?.abandon(why)
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    this.#signal?.removeEventListener('abort', this.#cancel)
  }
}

/** Detects that bytes arrive too slowly or not at all. */
class StallWatch {
  readonly #limits: StallLimits
  readonly #bytes: () => number
  readonly intervalMs: number
  #lastSignAt = performance.now()
  /** The byte counts at earlier checks, since the first byte. */
  readonly #marks: { at: number; bytes: number }[] = []
  hasBegun = false

  constructor(limits: StallLimits, bytes: () => number) {
    this.#limits = limits
    this.#bytes = bytes
    this.intervalMs = Math.min(WATCH_INTERVAL_MS, limits.silentMs / 4)
  }

  sign(): void {
    this.hasBegun = true
    this.#lastSignAt = performance.now()
  }

  /** Returns the reason why the transfer has stalled; undefined if it hasn't. */
  check(): string | undefined {
    const { silentMs, slowMs, slowBytesPerS } = this.#limits
    const now = performance.now()
    const bytes = this.#bytes()
    if (now - this.#lastSignAt > silentMs) return `received nothing for ${silentMs} ms`
    if (bytes === 0) return undefined
    this.#marks.push({ at: now, bytes })
    const [first] = this.#marks
    if (!first || now - first.at < slowMs) return undefined
    this.#marks.shift()
    const perSecond = ((bytes - first.bytes) / (now - first.at)) * 1_000
    return perSecond < slowBytesPerS ? `received only ${Math.round(perSecond)} bytes per second` : undefined
  }
}
