import { errorOf, unreachable } from '../../client/errors.ts'
import { type Hearth, hearth } from '../../client/index.ts'
import { keyOf, type KeyName } from './session.ts'

export { HearthError } from '../../client/index.ts'

export const BUILDER = '/api/builder/v1'
export const ADMIN = '/api/v1/admin'

let made: { key: string; client: Hearth } | undefined

/** Returns the client for the account of this tab's key. */
export function client(): Hearth {
  const key = keyOf('api') ?? ''
  if (made?.key !== key)
    made = { key, client: hearth({ baseUrl: location.origin, apiKey: key, fetch: uncached }) }
  return made.client
}

const uncached = (url: string, init?: RequestInit): Promise<Response> =>
  fetch(url, { ...init, cache: 'no-store' })

/** Returns a client that reports upload progress from 0 to 1, which `fetch` can't do. */
export const sendingClient = (onSent: (part: number) => void): Hearth =>
  hearth({ baseUrl: location.origin, apiKey: keyOf('api') ?? '', fetch: sending(onSent) })

const sending =
  (onSent: (part: number) => void) =>
  (url: string, init: RequestInit = {}): Promise<Response> => {
    const { promise, resolve, reject } = Promise.withResolvers<Response>()
    const request = new XMLHttpRequest()
    request.open(init.method ?? 'GET', url)
    for (const [name, value] of new Headers(init.headers).entries()) request.setRequestHeader(name, value)
    request.upload.addEventListener('progress', ({ loaded, total }) => onSent(total > 0 ? loaded / total : 0))
    request.addEventListener('load', () =>
      resolve(new Response(request.responseText, { status: request.status })),
    )
    request.addEventListener('error', () => reject(new TypeError('the connection was lost')))
    request.send(init.body as XMLHttpRequestBodyInit | null)
    return promise
  }

interface CallOptions {
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Sent as JSON. */
  body?: unknown
  key?: string | null
  headers?: Record<string, string>
  signal?: AbortSignal
}

/** Calls a route by its path and returns the parsed response. Sends the operations key to operator routes. */
export async function call<T>(path: string, options: CallOptions = {}): Promise<T> {
  const answer = await open(path, options)
  const text = await answer.text()
  // The API validates its own responses, so trust the type that the caller names.
  return (text === '' ? undefined : JSON.parse(text)) as T
}

async function open(
  path: string,
  { method = 'GET', body, key, headers, signal }: CallOptions,
): Promise<Response> {
  const name: KeyName = path.startsWith(ADMIN) ? 'operations' : 'api'
  const credential = key ?? keyOf(name)
  const what = `${method} ${path}`
  const answer = await uncached(path, {
    method,
    headers: {
      ...headers,
      ...(credential && { 'x-api-key': credential }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    ...(signal && { signal }),
  }).catch((err: unknown) => {
    signal?.throwIfAborted()
    throw unreachable(what, err)
  })
  if (!answer.ok) throw await errorOf(answer, what)
  return answer
}

/** Calls the API and yields the data of each server-sent event; in OpenAI's streams, the data is not always JSON. */
export async function* stream(path: string, options: CallOptions): AsyncGenerator<string> {
  const answer = await open(path, options)
  if (!answer.body) return
  let rest = ''
  for await (const chunk of chunksOf(answer.body.pipeThrough(new TextDecoderStream()))) {
    const events = (rest + chunk).split(/\r?\n\r?\n/)
    rest = events.pop() ?? ''
    for (const event of events) {
      const lines = event.split(/\r?\n/).filter((line) => line.startsWith('data:'))
      if (lines.length > 0) yield lines.map((line) => line.slice(5).trimStart()).join('\n')
    }
  }
}

/** Not every browser iterates over a `ReadableStream`. */
async function* chunksOf(readable: ReadableStream<string>): AsyncGenerator<string> {
  const reader = readable.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      yield value
    }
  } finally {
    await reader.cancel()
  }
}

/** Builds a query string from the values that are set. */
export function withQuery(
  path: string,
  query: Record<string, string | number | boolean | null | undefined>,
): string {
  const given = Object.entries(query).filter(
    ([, value]) => value !== undefined && value !== null && value !== '',
  )
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()
  return text === '' ? path : `${path}?${text}`
}
