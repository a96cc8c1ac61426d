import { request } from 'undici'
import type { Issue } from '../domain/errors.ts'
import { CliError, WRONG_USE } from './cli-error.ts'

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

/** Sends requests to a platform; every failure has a message that says what to do. */
export class PlatformClient {
  readonly baseUrl: string
  readonly #reach: Reach

  constructor(baseUrl: string, reach: Reach) {
    this.baseUrl = baseUrl.replace(/\/$/, '')
    this.#reach = reach
  }

  /** Returns the JSON of the response; `undefined` without a body. */
  async call<T>(method: Method, path: string, body?: unknown): Promise<T> {
    const { statusCode, text } = await this.#send(method, path, body)
    const parsed = parse(text)
    if (statusCode < 300) return parsed as T
    const { issues } = (parsed as ErrorBody | undefined)?.error?.details ?? {}
    throw new CliError(this.#explain(statusCode, parsed), statusCode === 422 ? WRONG_USE : 1, issues)
  }

  async #send(method: Method, path: string, body: unknown): Promise<{ statusCode: number; text: string }> {
    const { prefix, headers } = this.#reach
    try {
      const answer = await request(`${this.baseUrl}${prefix}${path}`, {
        method,
        headers: { ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
        body: body === undefined ? null : JSON.stringify(body),
        headersTimeout: 30_000,
      })
      return { statusCode: answer.statusCode, text: await answer.body.text() }
    } catch (err) {
      const why = err instanceof Error ? err.message || (err as NodeJS.ErrnoException).code : String(err)
      throw new CliError(
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
