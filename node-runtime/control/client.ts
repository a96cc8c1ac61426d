import { setTimeout as sleep } from 'node:timers/promises'
import { type Dispatcher, Pool } from 'undici'
import { FairTurns } from '../../platform/async/fair-turns.ts'
import { inChunks } from '../../platform/async/in-chunks.ts'
import { backoff } from '../../platform/async/retry.ts'
import type { NodeTools } from '../../schemas/node-tools.ts'
import type { AskTemporalCredential, NodeModelSpec, TemporalCredential } from '../../schemas/node.ts'
import type { ModelExpectation } from '../../schemas/training-merge.ts'
import { withoutPaths } from '../models/without-paths.ts'
import type { Identity } from './identity.ts'

/** A gateway's refusal; `code` is the error code of the API. */
export class ControlError extends Error {
  override readonly name = 'ControlError'
  readonly status: number
  readonly code: string
  readonly details: Readonly<Record<string, unknown>>

  constructor(
    status: number,
    code: string,
    message: string,
    details: Readonly<Record<string, unknown>> = {},
  ) {
    super(message)
    this.status = status
    this.code = code
    this.details = details
  }
}

export interface CallOptions {
  signal?: AbortSignal
  /** The time for which gateways that do not respond are retried. */
  patienceMs?: number
}

/** Options of a call whose request or answer may be large. */
export interface TransferOptions extends CallOptions {
  /** The key of the account's turns; undefined where an older version of the platform does not send it. */
  turn: string | undefined
}

interface Request {
  method: 'GET' | 'POST'
  path: string
  text: string
}

interface ControlClientOptions {
  identity: Identity
  /** Returns the gateways to call, in order. */
  gateways: () => readonly string[]
  patienceMs?: number
  /** For tests: see `UPLOAD_IDLE_TIMEOUT_MS`. */
  uploadIdleMs?: number
}

const RETRY_STATUS = new Set([429, 500, 502, 503, 504])
const CALL_TIMEOUT_MS = 20_000
/** The same with the wait for a connection. */
const CALL_LIMIT_MS = 30_000
const TIMEOUTS = { headersTimeout: CALL_TIMEOUT_MS, bodyTimeout: CALL_TIMEOUT_MS }
const RETRY_DELAY_MS = { first: 100, longest: 5_000 }
/** Claims and leases wait neither for hand-overs nor for inputs and results, so each has connections of its own. */
const CONNECTIONS = { calls: 8, edges: null, downloads: 8, results: 12, uploads: 4 } as const
type Use = keyof typeof CONNECTIONS
/** A larger body is a result, and one above that an upload. */
const MAX_CALL_BYTES = 64 * 1024
const MAX_RESULT_BYTES = 1024 * 1024
/** Downloads at once, of all accounts and of one. */
const DOWNLOADS = { most: CONNECTIONS.downloads, mostPerKey: 6, mostWaiting: Infinity }
/** Results and uploads at once: few of these, because each must arrive before its signature expires (`MAX_SKEW_MS`). */
const RESULTS = { most: CONNECTIONS.results, mostPerKey: 9, mostWaiting: Infinity }
const UPLOADS = { most: CONNECTIONS.uploads, mostPerKey: 3, mostWaiting: Infinity }
/** The time in which an upload must send a chunk, and after the last one get its answer. The kernel buffers megabytes. */
const UPLOAD_IDLE_TIMEOUT_MS = 45_000
/** Calls of a node that wait at the platform for news of hand-overs, at once. */
const MAX_LONG_POLLS = 48
/** Those of one account. */
const MAX_OWN_LONG_POLLS = 40
/** How long one of them waits, by whether others wait for its turn. */
const LONG_POLL_MS = { quiet: 10_000, busy: 3_000 }

/**
 * Sends signed HTTP requests to any gateway. One that is down or failing is skipped for the next;
 * each try is signed anew.
 */
export class ControlClient {
  readonly #identity: Identity
  readonly #gateways: () => readonly string[]
  /** The time for which gateways that do not respond are retried, where a call does not say otherwise. */
  readonly patienceMs: number
  /** By their use and gateway. */
  readonly #pools = new Map<string, Pool>()
  readonly #uploadIdleMs: number
  readonly #downloadTurns = new FairTurns(DOWNLOADS)
  readonly #uploadTurns = { results: new FairTurns(RESULTS), uploads: new FairTurns(UPLOADS) }
  readonly #longPollTurns = new FairTurns({
    most: MAX_LONG_POLLS,
    mostPerKey: MAX_OWN_LONG_POLLS,
    mostWaiting: Infinity,
  })
  #longPolls = 0
  /** Gateways that gave no answer to the last call that has ended. */
  readonly #gone = new Set<string>()

  constructor(options: ControlClientOptions) {
    const { identity, gateways, patienceMs = 60_000, uploadIdleMs = UPLOAD_IDLE_TIMEOUT_MS } = options
    this.#identity = identity
    this.#gateways = gateways
    this.patienceMs = patienceMs
    this.#uploadIdleMs = uploadIdleMs
  }

  claimJob<T>(jobId: string, body: object, options?: CallOptions): Promise<T> {
    return this.call('POST', `/api/v1/jobs/${jobId}/claim`, body, options)
  }

  claimTask<T>(taskId: string, body: object, options?: CallOptions): Promise<T> {
    return this.call('POST', `/api/v1/tasks/${taskId}/claim`, body, options)
  }

  /** Claims a stage. The answer has its input, so this takes a turn like a download. */
  async claimStage<T>(cohortId: string, stageId: string, body: object, options: TransferOptions): Promise<T> {
    using _turn = await takeTurn(this.#downloadTurns, options)
    const path = `/api/v1/cohorts/${cohortId}/stages/${stageId}:claim`
    return await this.#send('downloads', { method: 'POST', path, text: JSON.stringify(body) }, options)
  }

  /** Calls one of the edge routes of a cohort. */
  edge<T>(
    verb: 'negotiate' | 'rendezvous' | 'transfer' | 'session' | 'consume',
    { cohortId, edgeId }: { cohortId: string; edgeId: string },
    body: object,
    options?: CallOptions,
  ): Promise<T> {
    const path = `/api/v1/cohorts/${cohortId}/edges/${edgeId}:${verb}`
    return this.#send('edges', { method: 'POST', path, text: JSON.stringify(body) }, options)
  }

  /**
   * Makes a call that waits at the platform, for at most the time that it is given. Accounts take turns, so that one with
   * hundreds of hand-overs that wait does not delay those of another.
   */
  async longPoll<T>(turn: string, signal: AbortSignal, call: (maxMs: number) => Promise<T>): Promise<T> {
    this.#longPolls += 1
    try {
      using _turn = await this.#longPollTurns.take(turn, signal)
      return await call(this.#longPolls > MAX_OWN_LONG_POLLS ? LONG_POLL_MS.busy : LONG_POLL_MS.quiet)
    } finally {
      this.#longPolls -= 1
    }
  }

  /**
   * Calls one of the lease routes. Paths on the disk are removed from the reason of a failure; those in what the platform has
   * said of a result are places in it.
   */
  lease<T>(
    verb: 'renew' | 'urls' | 'files' | 'checkpoint' | 'fail',
    leaseToken: string,
    body: object,
    options?: CallOptions,
  ): Promise<T> {
    const isOfPlatform = 'code' in body && body.code === 'result_refused'
    const redacted =
      'message' in body && typeof body.message === 'string' && !isOfPlatform
        ? { ...body, message: withoutPaths(body.message) }
        : body
    return this.call('POST', `/api/v1/leases/${leaseToken}:${verb}`, redacted, options)
  }

  /** Completes a lease with its result, which may be large. */
  complete<T>(leaseToken: string, body: object, options: TransferOptions): Promise<T> {
    return this.call('POST', `/api/v1/leases/${leaseToken}:complete`, body, options)
  }

  /** Requests the node's credential for Temporal. */
  temporalCredential(asked: AskTemporalCredential, options?: CallOptions): Promise<TemporalCredential> {
    return this.call('POST', '/api/v1/nodes:temporal-credential', asked, options)
  }

  modelSpec(modelKey: string, options?: CallOptions): Promise<NodeModelSpec> {
    return this.call('GET', `/api/v1/nodes/models/${encodeURIComponent(modelKey)}`, undefined, options)
  }

  /** Returns the tools of operators. */
  tools(options?: CallOptions): Promise<NodeTools> {
    return this.call('GET', '/api/v1/nodes/tools', undefined, options)
  }

  /** Returns the ingredients with whose logits a model must be compared. */
  modelExpectation(modelKey: string, options?: CallOptions): Promise<ModelExpectation> {
    const path = `/api/v1/nodes/models/${encodeURIComponent(modelKey)}/expectation`
    return this.call('GET', path, undefined, options)
  }

  /**
   * Reads what a gateway has named by a URL of its own, from any gateway; repeated, and refused, like a call. Downloads of
   * one `turn`, an account, leave connections to those of others.
   */
  async download(
    url: string,
    { turn, signal }: TransferOptions & { signal: AbortSignal },
  ): Promise<Pick<Dispatcher.ResponseData, 'headers'> & { body: Buffer }> {
    using _turn = await takeTurn(this.#downloadTurns, { turn, signal })
    return await this.#repeatedly({ signal }, 'downloads', async (base) => {
      const path = base.pathname.replace(/\/$/, '') + url.slice(url.indexOf('/api/v1/'))
      const answer = await this.#pool(base.origin, 'downloads').request({
        method: 'GET',
        path,
        ...TIMEOUTS,
        signal,
      })
      const body = Buffer.from(await answer.body.arrayBuffer())
      if (answer.statusCode !== 200) throw toControlError(answer.statusCode, body.toString())
      return { headers: answer.headers, body }
    })
  }

  /** Calls a route; throws a `ControlError` for a refusal, and the last error when the time is up. */
  async call<T>(
    method: 'GET' | 'POST',
    path: string,
    body?: object,
    options: CallOptions & Partial<TransferOptions> = {},
  ): Promise<T> {
    const request = { method, path, text: body === undefined ? '' : JSON.stringify(body) }
    if (request.text.length <= MAX_CALL_BYTES) return await this.#send('calls', request, options)
    const use = request.text.length <= MAX_RESULT_BYTES ? 'results' : 'uploads'
    using _turn = await takeTurn(this.#uploadTurns[use], options)
    return await this.#send(use, request, options)
  }

  #send<T>(use: Use, request: Request, options?: CallOptions): Promise<T> {
    return this.#repeatedly(options, use, (base) => this.#once(use, { ...request, base }, options?.signal))
  }

  async #repeatedly<T>(
    { signal, patienceMs = this.patienceMs }: CallOptions = {},
    use: Use,
    once: (base: URL) => Promise<T>,
  ): Promise<T> {
    const mayBeLong = use !== 'calls' && use !== 'edges'
    let deadline = mayBeLong ? undefined : performance.now() + patienceMs
    const tried = new Set<string>()
    for (let attempt = 0; ; attempt++) {
      signal?.throwIfAborted()
      const gateway = this.#next(tried)
      try {
        if (gateway === undefined) throw new ControlError(503, 'no_capacity', 'no gateway is known')
        const answer = await once(new URL(gateway))
        this.#gone.delete(gateway)
        return answer
      } catch (err) {
        // Bytes may have moved for longer than the patience before a line breaks.
        deadline ??= performance.now() + patienceMs
        const isAnswer = err instanceof ControlError
        const refused = isAnswer && !RETRY_STATUS.has(err.status)
        if (refused || signal?.aborted || performance.now() > deadline) throw err
        // One that answers can serve other calls; a proxy may answer for one that is gone.
        const isGone = !isAnswer || err.status === 502 || err.status === 504
        if (gateway !== undefined) {
          tried.add(gateway)
          if (isGone) this.#gone.add(gateway)
          else this.#gone.delete(gateway)
        }
        // The first round over all gateways has no pause.
        const round = Math.floor(attempt / Math.max(1, this.#gateways().length))
        await sleep(backoff(round, RETRY_DELAY_MS), undefined, signal && { signal })
      }
    }
  }

  /** Returns a gateway that this call has not tried, one that gave an answer last if there is any; then all count again. */
  #next(tried: Set<string>): string | undefined {
    const all = this.#gateways()
    if (all.every((gateway) => tried.has(gateway))) tried.clear()
    const untried = all.filter((gateway) => !tried.has(gateway))
    return untried.find((gateway) => !this.#gone.has(gateway)) ?? untried[0]
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => pool.destroy()))
    this.#pools.clear()
  }

  async #once<T>(
    use: Use,
    { method, path, text, base }: Request & { base: URL },
    signal: AbortSignal | undefined,
  ): Promise<T> {
    const fullPath = base.pathname.replace(/\/$/, '') + path
    const isUpload = use === 'results' || use === 'uploads'
    const answer = await this.#pool(base.origin, use).request({
      method,
      path: fullPath,
      headers: {
        ...this.#identity.sign(method, fullPath, text),
        ...(text && { 'content-type': 'application/json' }),
        ...(isUpload && { 'content-length': String(Buffer.byteLength(text)) }),
      },
      body: isUpload ? inChunks(text) : text || null,
      ...TIMEOUTS,
      ...(isUpload && { headersTimeout: this.#uploadIdleMs }),
      signal: AbortSignal.any([
        ...(signal ? [signal] : []),
        // Calls wait for a connection too, and those to a gateway that is silent must not wait for each other.
        ...(use === 'calls' ? [AbortSignal.timeout(CALL_LIMIT_MS)] : []),
      ]),
    })
    const reply = await answer.body.text()
    if (answer.statusCode >= 300) throw toControlError(answer.statusCode, reply)
    return (reply ? JSON.parse(reply) : undefined) as T
  }

  #pool(origin: string, use: Use): Pool {
    const key = `${use} ${origin}`
    let pool = this.#pools.get(key)
    if (!pool) this.#pools.set(key, (pool = new Pool(origin, { connections: CONNECTIONS[use] })))
    return pool
  }
}

const takeTurn = (
  turns: FairTurns,
  { turn = '', signal = new AbortController().signal }: Partial<TransferOptions>,
): Promise<Disposable> => turns.take(turn, signal)

function toControlError(status: number, reply: string): ControlError {
  try {
    const { error } = JSON.parse(reply) as {
      error: { code: string; message: string; details?: Record<string, unknown> }
    }
    return new ControlError(status, error.code, error.message, error.details)
  } catch {
    return new ControlError(status, 'internal', reply.slice(0, 200) || `status ${status}`)
  }
}
