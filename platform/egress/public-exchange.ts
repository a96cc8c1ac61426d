import type { Dispatcher, Pool } from 'undici'

const MAX_ANSWER_BYTES = 64 * 1024

export interface PublicRequest {
  method: 'GET' | 'POST'
  /** The account that makes this exchange; DNS look-ups are limited per account. */
  owner: string
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

/** Thrown for an exchange that was aborted before its response. */
export class ExchangeAborted extends Error {
  override readonly name = 'ExchangeAborted'
  readonly reason: 'timeout' | 'aborted'
  constructor(reason: 'timeout' | 'aborted') {
    super(reason)
    this.reason = reason
  }
}

/**
 * The deadline of one exchange, combined with the caller's signal. It uses one timer and one listener, which both end
 * with the exchange. A signal per exchange (`AbortSignal.timeout`, `any`) would retain the exchange's objects for the
 * whole timeout: about 400 MB at 800 exchanges a second.
 */
export class Deadline implements Disposable {
  readonly #over = Promise.withResolvers<never>()
  readonly #timer: NodeJS.Timeout
  readonly #caller: AbortSignal | undefined
  readonly #abort = () => this.#end('aborted')

  constructor(ms: number, caller: AbortSignal | undefined) {
    this.#over.promise.catch(() => {})
    this.#timer = setTimeout(() => this.#end('timeout'), ms)
    this.#caller = caller
    if (caller?.aborted) this.#abort()
    else caller?.addEventListener('abort', this.#abort)
  }

  /** Returns the work's outcome, or rejects with `ExchangeAborted` if the exchange is aborted first. */
  with<T>(work: Promise<T>): Promise<T> {
    return Promise.race([work, this.#over.promise])
  }

  #end(reason: ExchangeAborted['reason']): void {
    this.#over.reject(new ExchangeAborted(reason))
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
    this.#caller?.removeEventListener('abort', this.#abort)
  }
}

/** Sends one request over a pool. Throws undici's errors, or `ExchangeAborted`. */
export async function exchange(
  pool: Pool,
  path: string,
  { method, headers, body }: PublicRequest,
  deadline: Deadline,
): Promise<Answer> {
  const collector = new ResponseCollector()
  pool.dispatch({ path, method, headers, body: body ?? null }, collector)
  try {
    return await deadline.with(collector.answer)
  } catch (err) {
    collector.abandon(err as Error)
    throw err
  }
}

/** Collects a response up to the size limit; bytes beyond it are not read. */
class ResponseCollector implements Dispatcher.DispatchHandler {
  readonly #done = Promise.withResolvers<Answer>()
  readonly #chunks: Buffer[] = []
  #controller: Dispatcher.DispatchController | undefined
  #abandoned: Error | undefined
  #size = 0
  #status = 0
  #headers: Answer['headers'] = {}

  get answer(): Promise<Answer> {
    return this.#done.promise
  }

  /** Closes the connection now, or as soon as there is one. */
  abandon(why: Error): void {
    this.#abandoned = why
    this.#controller?.abort(why)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#abandoned) controller.abort(this.#abandoned)
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Answer['headers'],
  ): void {
    // A 1xx status only precedes the response.
    if (status < 200) return
    this.#status = status
    this.#headers = headers
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#size += chunk.length
    if (this.#size < MAX_ANSWER_BYTES) return
    this.#finish()
    controller.abort(new Error('the rest of the response is not needed'))
  }

  onResponseEnd(): void {
    this.#finish()
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, err: Error): void {
    this.#done.reject(err)
  }

  #finish(): void {
    const body = Buffer.concat(this.#chunks).subarray(0, MAX_ANSWER_BYTES)
    this.#done.resolve({ status: this.#status, headers: this.#headers, body })
  }
}
