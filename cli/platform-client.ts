import { request } from 'undici'
import type { Issue } from '../domain/errors.ts'
import { inChunks } from '../platform/async/in-chunks.ts'
import { CliError, PassingError, WRONG_USE } from './cli-error.ts'

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

interface ErrorBody {
  error?: { code?: string; message?: string; details?: { issues?: readonly Issue[] } }
}

/** The part of a platform that a client reaches, and with which credential. */
interface Reach {
  prefix: string
  headers: Readonly<Record<string, string>>
  /** Continues `<address> refuses `: the credential, and where to change it. */
  credential: string
}

/** Answers to a wrong credential, to too large a request and to one with faults. */
const WRONG_REQUESTS: ReadonlySet<number> = new Set([401, 413, 422])

/** Answers of proxies that have lost the platform, and of a platform that is busy or on its way down. */
const PASSING: ReadonlySet<number> = new Set([429, 502, 503, 504])

const RESPONSE_TIMEOUT_MS = 30_000

/** Sends requests to a platform; every failure has a message that says what to do. */
export class PlatformClient {
  readonly baseUrl: string
  readonly #reach: Reach
  readonly #answerMs: number

  /** @param options `answerMs` is for tests: the time for the answer once the body is sent. */
  constructor(baseUrl: string, reach: Reach, { answerMs = RESPONSE_TIMEOUT_MS }: { answerMs?: number } = {}) {
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

  /** Throws unless something answers at the address, whatever it says. */
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
        `Nothing answers at ${this.baseUrl} (${why}). Is the platform running? \`npm start\` starts one here; --base-url names another.`,
      )
    }
  }

  #explain(statusCode: number, body: unknown): string {
    const { code, message } = (body as ErrorBody | undefined)?.error ?? {}
    if (statusCode === 401) return `${this.baseUrl} refuses ${this.#reach.credential}.`
    if (!code) {
      return `${this.baseUrl} answered ${statusCode}, which this platform never does alone: is that its address?`
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
