import { setTimeout as sleep } from 'node:timers/promises'
import { type Dispatcher, Pool } from 'undici'
import { FairSemaphore } from '../../platform/async/fair-semaphore.ts'
import { inChunks } from '../../platform/async/in-chunks.ts'
import { backoff } from '../../platform/async/retry.ts'
import type { NodeTools } from '../../schemas/nodes/node-tools.ts'
import type { AskTemporalCredential, NodeModelSpec, TemporalCredential } from '../../schemas/nodes/node.ts'
import type { ModelExpectation } from '../../schemas/training-merge.ts'
import { withoutPaths } from '../models/without-paths.ts'
import type { Identity } from './identity.ts'

/** A gateway's rejection of a call; `code` is the API's error code. */
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
  /** How long to retry gateways that don't respond. */
  patienceMs?: number
}

/** Options of a call with a potentially large request or response. */
export interface TransferOptions extends CallOptions {
  /** The account's key for taking turns; undefined if an older version of the platform does not send it. */
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
/** The time limit of a call, including the wait for a connection. */
const CONTROL_CALL_TIMEOUT_MS = 30_000
const TIMEOUTS = { headersTimeout: CALL_TIMEOUT_MS, bodyTimeout: CALL_TIMEOUT_MS }
const RETRY_DELAY_MS = { first: 100, longest: 5_000 }
/** Connections by use: claims and leases must not queue behind hand-overs, inputs or results. */
const CONNECTIONS = { calls: 8, edges: null, downloads: 8, results: 12, uploads: 4 } as const
type Use = keyof typeof CONNECTIONS
/** A larger body counts as a result, and one above `MAX_RESULT_BYTES` as an upload. */
const MAX_CALL_BYTES = 64 * 1024
const MAX_RESULT_BYTES = 1024 * 1024
/** Limits on concurrent downloads, in total and per account. */
const DOWNLOADS = { most: CONNECTIONS.downloads, mostPerKey: 6, mostWaiting: Infinity }
/**
 * Limits on concurrent results and uploads. The upload limit is low, because each upload must arrive before its
 * signature expires (`MAX_SKEW_MS`).
 */
const RESULTS = { most: CONNECTIONS.results, mostPerKey: 9, mostWaiting: Infinity }
const UPLOADS = { most: CONNECTIONS.uploads, mostPerKey: 3, mostWaiting: Infinity }
/**
 * The time limit for each chunk of an upload, and for its response. It is long because the kernel buffers megabytes.
 */
const UPLOAD_IDLE_TIMEOUT_MS = 45_000
/** The limit on a node's concurrent long polls for news of hand-overs. */
const MAX_LONG_POLLS = 48
/** The limit per account. */
const MAX_OWN_LONG_POLLS = 40
/** The duration of a long poll: `busy` while others wait for a turn, `quiet` otherwise. */
const LONG_POLL_TIMEOUT_MS = { quiet: 10_000, busy: 3_000 }

/**
 * Sends signed HTTP requests to any gateway. Moves on to the next gateway if one is down or failing, and signs each
 * attempt separately.
 */
export class ControlClient {
  readonly #identity: Identity
  readonly #gateways: () => readonly string[]
  /** How long to retry gateways that don't respond, unless a call sets its own limit. */
  readonly patienceMs: number
  /** Connection pools by use and gateway. */
  readonly #pools = new Map<string, Pool>()
  readonly #uploadIdleMs: number
  readonly #downloadTurns = new FairSemaphore(DOWNLOADS)
  readonly #uploadTurns = { results: new FairSemaphore(RESULTS), uploads: new FairSemaphore(UPLOADS) }
  readonly #longPollTurns = new FairSemaphore({
    most: MAX_LONG_POLLS,
    mostPerKey: MAX_OWN_LONG_POLLS,
    mostWaiting: Infinity,
  })
  #longPolls = 0
  /** Gateways that did not answer the last completed call. */
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

  /** Claims a stage. The response contains the stage's input, so this takes a turn like a download. */
  async claimStage<T>(cohortId: string, stageId: string, body: object, options: TransferOptions): Promise<T> {
    using _turn = await acquireTurn(this.#downloadTurns, options)
    const path = `/api/v1/cohorts/${cohortId}/stages/${stageId}:claim`
    return await this.#send('downloads', { method: 'POST', path, text: JSON.stringify(body) }, options)
  }

  /** Calls one of a cohort's edge routes. */
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
   * Makes a long poll, which passes its `maxMs` to the platform. Accounts take turns, so one with hundreds of pending
   * hand-overs does not delay another.
   */
  async longPoll<T>(turn: string, signal: AbortSignal, call: (maxMs: number) => Promise<T>): Promise<T> {
    this.#longPolls += 1
    try {
      using _turn = await this.#longPollTurns.take(turn, signal)
      return await call(
        this.#longPolls > MAX_OWN_LONG_POLLS ? LONG_POLL_TIMEOUT_MS.busy : LONG_POLL_TIMEOUT_MS.quiet,
      )
    } finally {
      this.#longPolls -= 1
    }
  }

  /**
   * Calls one of the lease routes. Removes disk paths from a failure's message, unless the platform itself rejected the
   * result: paths in that message are locations within the result.
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

  modelSpec(
    modelKey: string,
    { adapters, ...options }: CallOptions & { adapters?: boolean } = {},
  ): Promise<NodeModelSpec> {
    const path = `/api/v1/nodes/models/${encodeURIComponent(modelKey)}${adapters ? '?adapters=true' : ''}`
    return this.call('GET', path, undefined, options)
  }

  /** Returns the tools that operators have registered. */
  tools(options?: CallOptions): Promise<NodeTools> {
    return this.call('GET', '/api/v1/nodes/tools', undefined, options)
  }

  /** Returns the ingredients whose logits a model must be compared with. */
  modelExpectation(modelKey: string, options?: CallOptions): Promise<ModelExpectation> {
    const path = `/api/v1/nodes/models/${encodeURIComponent(modelKey)}/expectation`
    return this.call('GET', path, undefined, options)
  }

  /**
   * Downloads from a URL that a gateway issued for itself, but through any gateway. Retries and fails like a call.
   * Accounts take turns, by `turn`, so that each gets connections.
   */
  async download(
    url: string,
    { turn, signal }: TransferOptions & { signal: AbortSignal },
  ): Promise<Pick<Dispatcher.ResponseData, 'headers'> & { body: Buffer }> {
    using _turn = await acquireTurn(this.#downloadTurns, { turn, signal })
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

  /**
   * Calls a route. Throws a `ControlError` if a gateway rejects the call, or the last error once the retry time runs
   * out.
   */
  async call<T>(
    method: 'GET' | 'POST',
    path: string,
    body?: object,
    options: CallOptions & Partial<TransferOptions> = {},
  ): Promise<T> {
    const request = { method, path, text: body === undefined ? '' : JSON.stringify(body) }
    if (request.text.length <= MAX_CALL_BYTES) return await this.#send('calls', request, options)
    const use = request.text.length <= MAX_RESULT_BYTES ? 'results' : 'uploads'
    using _turn = await acquireTurn(this.#uploadTurns[use], options)
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
        // A long transfer may outlast the retry time before it breaks, so the clock starts at the first failure.
        deadline ??= performance.now() + patienceMs
        const isAnswer = err instanceof ControlError
        const refused = isAnswer && !RETRY_STATUS.has(err.status)
        if (refused || signal?.aborted || performance.now() > deadline) throw err
        // A gateway that answers can serve other calls. On 502 and 504, a proxy answers for a gateway that is gone.
        const isGone = !isAnswer || err.status === 502 || err.status === 504
        if (gateway !== undefined) {
          tried.add(gateway)
          if (isGone) this.#gone.add(gateway)
          else this.#gone.delete(gateway)
        }
        // There is no pause during the first round over all gateways.
        const round = Math.floor(attempt / Math.max(1, this.#gateways().length))
        await sleep(backoff(round, RETRY_DELAY_MS), undefined, signal && { signal })
      }
    }
  }

  /** Returns an untried gateway, preferably one that answered last time. Once all have been tried, starts over. */
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
        // Includes the wait for a connection, so calls to a silent gateway don't queue behind each other.
        ...(use === 'calls' ? [AbortSignal.timeout(CONTROL_CALL_TIMEOUT_MS)] : []),
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

const acquireTurn = (
  turns: FairSemaphore,
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
