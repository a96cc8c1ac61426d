import { request } from 'undici'
import type { Issue } from '../domain/errors.ts'
import { CliError, WRONG_USE } from './cli-error.ts'

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

interface ErrorBody {
  error?: { code?: string; message?: string; details?: { issues?: readonly Issue[] } }
}

/** Sends requests to `/api/v1/admin` with the operations key; every failure has a message that says what to do. */
export class AdminClient {
  readonly baseUrl: string
  readonly #operationsKey: string

  constructor(baseUrl: string, operationsKey: string) {
    this.baseUrl = baseUrl.replace(/\/$/, '')
    this.#operationsKey = operationsKey
  }

  /** Returns the JSON of the response; `undefined` without a body. */
  async call<T>(method: Method, path: string, body?: unknown): Promise<T> {
    const { statusCode, text } = await this.#send(method, path, body)
    const parsed = parse(text)
    if (statusCode < 300) return parsed as T
    const { issues } = (parsed as ErrorBody | undefined)?.error?.details ?? {}
    throw new CliError(this.#explain(statusCode, parsed), statusCode === 422 ? WRONG_USE : 1, issues)
  }

  /** Returns the items of every page of a list. */
  async all<T>(path: string, plural: string): Promise<T[]> {
    const items: T[] = []
    for (let cursor: string | null = ''; cursor !== null;) {
      const separator = path.includes('?') ? '&' : '?'
      const query: string = cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''
      const page: Record<string, unknown> = await this.call('GET', `${path}${separator}limit=100${query}`)
      items.push(...(page[plural] as T[]))
      cursor = page['next_cursor'] as string | null
    }
    return items
  }

  async #send(method: Method, path: string, body: unknown): Promise<{ statusCode: number; text: string }> {
    try {
      const answer = await request(`${this.baseUrl}/api/v1/admin${path}`, {
        method,
        headers: {
          'x-api-key': this.#operationsKey,
          ...(body !== undefined && { 'content-type': 'application/json' }),
        },
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
    if (statusCode === 401) {
      return `${this.baseUrl} refuses this operations key. Check HEARTH_OPERATIONS_KEY or --operations-key.`
    }
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
