import { request } from 'undici'
import type { Issue } from '../domain/errors.ts'
import { inChunks } from '../platform/async/in-chunks.ts'
import { CliError, PassingError, WRONG_USE } from './cli-error.ts'

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

interface ErrorBody {
  error?: { code?: string; message?: string; details?: { issues?: readonly Issue[] } }
}

/** The part of the API that a client calls, and its credential. */
interface ApiAccess {
  prefix: string
  headers: Readonly<Record<string, string>>
  /** Completes the sentence `<URL> rejects `: names the credential and where to change it. */
  credential: string
}

/** Status codes for wrong credentials, oversized requests and invalid requests. */
const WRONG_REQUESTS: ReadonlySet<number> = new Set([401, 413, 422])

/** Status codes of proxies that can't reach the platform, and of a platform that is busy or shutting down. */
const PASSING: ReadonlySet<number> = new Set([429, 502, 503, 504])

const RESPONSE_TIMEOUT_MS = 30_000

/** Sends requests to a platform. Every error message says what to do. */
export class PlatformClient {
  readonly baseUrl: string
  readonly #reach: ApiAccess
  readonly #answerMs: number

  /** @param options `answerMs` is for tests: the response timeout after the body is sent. */
  constructor(
    baseUrl: string,
    reach: ApiAccess,
    { answerMs = RESPONSE_TIMEOUT_MS }: { answerMs?: number } = {},
  ) {
    this.#answerMs = answerMs
    this.baseUrl = baseUrl.replace(/\/$/, '')
    this.#reach = reach
  }

  /** Returns the JSON of the response; `undefined` without a body. */
  async call<T>(
    method: Method,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<T> {
    const { statusCode, text } = await this.#send(method, path, body, headers)
    const parsed = parse(text)
    if (statusCode < 300) return parsed as T
    if (PASSING.has(statusCode)) throw new PassingError(this.#explain(statusCode, parsed))
    const { code, details } = (parsed as ErrorBody | undefined)?.error ?? {}
    const isWrong = WRONG_REQUESTS.has(statusCode) || code === 'account_mismatch'
    throw new CliError(this.#explain(statusCode, parsed), isWrong ? WRONG_USE : 1, details?.issues)
  }

  /** Throws unless the URL returns an HTTP response, with any status. */
  async probe(): Promise<void> {
    await this.#send('GET', '/', undefined)
  }

  async #send(
    method: Method,
    path: string,
    body: unknown,
    more: Readonly<Record<string, string>> = {},
  ): Promise<{ statusCode: number; text: string }> {
    const { prefix, headers } = this.#reach
    const text = body === undefined ? undefined : JSON.stringify(body)
    try {
      const answer = await request(`${this.baseUrl}${prefix}${path}`, {
        method,
        headers: {
          ...headers,
          ...more,
          ...(text !== undefined && {
            'content-type': 'application/json',
            'content-length': String(Buffer.byteLength(text)),
          }),
        },
        body: text === undefined ? null : inChunks(text),
        headersTimeout: this.#answerMs,
      })
      return { statusCode: answer.statusCode, text: await answer.body.text() }
    } catch (err) {
      const why = err instanceof Error ? err.message || (err as NodeJS.ErrnoException).code : String(err)
      throw new PassingError(
        `Cannot reach ${this.baseUrl} (${why}). Is the platform running? Start one here with \`npm start\`, or pass another URL with --base-url.`,
      )
    }
  }

  #explain(statusCode: number, body: unknown): string {
    const { code, message } = (body as ErrorBody | undefined)?.error ?? {}
    if (statusCode === 401) return `${this.baseUrl} rejects ${this.#reach.credential}.`
    if (!code) {
      return `${this.baseUrl} returned ${statusCode} without an error code, which Hearth never does. Is the URL right?`
    }
    return `${message ?? code} (${code})`
  }
}

function parse(text: string): unknown {
  try {
    return text === '' ? undefined : JSON.parse(text)
  } catch {
    return undefined
  }
}
