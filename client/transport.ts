import { errorOf, HearthError, unreachable } from './errors.ts'
import { pause } from './pause.ts'
import { waitBefore } from './retries.ts'

export const BUILDER = '/api/builder/v1'
const TRIES = 4

export type Fetch = (url: string, init?: RequestInit) => Promise<Response>

export interface HearthOptions {
  /** The base URL of the platform, such as `https://hearth.example`. */
  baseUrl: string
  /** An API key of the account. */
  apiKey: string
  /** Replaces the global `fetch`. */
  fetch?: Fetch
  /** The maximum number of attempts per request, 4 by default. */
  tries?: number
}

/** Options that every call accepts after its own arguments. */
export interface CallOptions {
  signal?: AbortSignal | undefined
  /**
   * The key under which a repeated request gets the first response. By default, routes that honor it get a new key;
   * `false` sends none.
   */
  idempotencyKey?: string | false
}

/** An operation of the OpenAPI document. */
export interface Operation {
  id: string
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Relative to the family's prefix, as spelled in the document. */
  path: `/${string}`
  /** Honors an `Idempotency-Key`. */
  idempotent?: boolean
  /** Safe to send twice although it isn't a GET: it only reads, or a repeat changes nothing. */
  repeatable?: boolean
  /** Requires an `If-Match` header. We send `*`, because responses don't contain ETags. */
  ifMatch?: boolean
  /** Statuses other than 2xx that have a normal response. */
  also?: readonly number[]
  /** The response is text rather than JSON. */
  isText?: boolean
}

export interface OutgoingRequest {
  ids?: readonly string[]
  query?: object | undefined
  /** A form, or a value to send as JSON. */
  body?: unknown
  options?: CallOptions | undefined
}

/** Sends operations to a platform, and retries them where that is safe and useful. */
export class Transport {
  readonly baseUrl: string
  readonly fetch: Fetch
  readonly tries: number
  readonly #apiKey: string

  constructor({ baseUrl, apiKey, fetch: given, tries = TRIES }: HearthOptions) {
    this.baseUrl = baseUrl.replace(/\/+$/, '')
    this.#apiKey = apiKey
    this.tries = tries
    // A browser's fetch throws when it is called as the method of another object.
    this.fetch = given ?? ((url, init) => globalThis.fetch(url, init))
  }

  /** Returns the response of an operation; throws a `HearthError`, or the reason of an aborted signal. */
  send<A>(operation: Operation, outgoing: OutgoingRequest = {}): Promise<A> {
    const { signal } = outgoing.options ?? {}
    return this.#repeat(operation, outgoing, async (key) => {
      const what = `${operation.method} ${operation.path}`
      const response = await this.#open(operation, outgoing, key)
      const text = await response.text().catch((err: unknown) => {
        signal?.throwIfAborted()
        throw unreachable(what, err)
      })
      return (operation.isText ? text : parse(what, response, text)) as A
    })
  }

  /** Returns the response of an operation whose body is read as it arrives. */
  open(operation: Operation, outgoing: OutgoingRequest = {}): Promise<Response> {
    return this.#repeat(operation, outgoing, (key) => this.#open(operation, outgoing, key))
  }

  async #repeat<A>(
    { idempotent, method, repeatable }: Operation,
    { options }: OutgoingRequest,
    request: (key: string | undefined) => Promise<A>,
  ): Promise<A> {
    const { idempotencyKey, signal } = options ?? {}
    const key = idempotent && idempotencyKey !== false ? (idempotencyKey ?? newKey()) : undefined
    for (let tried = 1; ; tried++) {
      try {
        return await request(key)
      } catch (err) {
        const isSafe = method === 'GET' || repeatable === true || key !== undefined
        const wait = tried < this.tries ? waitBefore(err, tried, isSafe) : undefined
        if (wait === undefined) throw err
        await pause(wait, signal)
      }
    }
  }

  /** Returns a response if its status is a success for the operation; throws otherwise. */
  async #open(operation: Operation, outgoing: OutgoingRequest, key: string | undefined): Promise<Response> {
    const { method, path, ifMatch, also = [] } = operation
    const { ids = [], query, body, options } = outgoing
    const { signal } = options ?? {}
    const what = `${method} ${path}`
    const isForm = body instanceof FormData
    const headers: Record<string, string> = { 'x-api-key': this.#apiKey }
    if (key !== undefined) headers['idempotency-key'] = key
    if (ifMatch) headers['if-match'] = '*'
    if (body !== undefined && !isForm) headers['content-type'] = 'application/json'
    const url = `${this.baseUrl}${BUILDER}${expand(path, ids)}${search(query)}`
    const response = await this.#fetch(what, url, {
      method,
      headers,
      ...(body !== undefined && { body: isForm ? body : JSON.stringify(body) }),
      ...(signal && { signal }),
    })
    if (!response.ok && !also.includes(response.status)) throw await errorOf(response, what)
    return response
  }

  async #fetch(what: string, url: string, init: RequestInit): Promise<Response> {
    try {
      return await this.fetch(url, init)
    } catch (err) {
      init.signal?.throwIfAborted()
      throw unreachable(what, err)
    }
  }
}

/** Inserts ids into a path, in the order of its parameters. */
function expand(path: string, ids: readonly string[]): string {
  let at = 0
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const id = ids[at++]
    // A URL without the id, or with dots instead, would address another operation.
    if (!id || id === '.' || id === '..')
      throw new TypeError(`${name} must be an id, not ${JSON.stringify(id)}`)
    return encodeURIComponent(id)
  })
}

function search(query: object | undefined): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) parameters.append(name, String(value))
  }
  return parameters.size === 0 ? '' : `?${parameters.toString()}`
}

function parse(what: string, response: Response, text: string): unknown {
  try {
    return text === '' ? undefined : (JSON.parse(text) as unknown)
  } catch (err) {
    throw new HearthError(`${what} returned ${response.status} with a body that is not JSON`, {
      status: response.status,
      code: 'unexpected_answer',
      cause: err,
    })
  }
}

/** Returns a random UUID. `crypto.randomUUID` is missing on pages served without TLS. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  const hex = Array.from(bytes, (byte, i) => {
    const value = i === 6 ? (byte & 0x0f) | 0x40 : i === 8 ? (byte & 0x3f) | 0x80 : byte
    return value.toString(16).padStart(2, '0')
  }).join('')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}
