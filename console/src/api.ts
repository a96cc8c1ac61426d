import { keyOf, type KeyName } from './session.ts'

export const BUILDER = '/api/builder/v1'
export const ADMIN = '/api/v1/admin'

/** What the API answered in place of a result. */
export class ApiFailure extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

interface CallOptions {
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Sent as JSON, or as it is when it is a form. */
  body?: unknown
  key?: string | null
  headers?: Record<string, string>
  signal?: AbortSignal
}

/** Calls the API and returns the parsed answer. Paths of operators are sent with the operations key. */
export async function call<T>(path: string, options: CallOptions = {}): Promise<T> {
  const answer = await open(path, options)
  const text = await answer.text()
  // The API validates its own answers, so their types are those that the caller names.
  return (text === '' ? undefined : JSON.parse(text)) as T
}

async function open(
  path: string,
  { method = 'GET', body, key, headers, signal }: CallOptions,
): Promise<Response> {
  const name: KeyName = path.startsWith(ADMIN) ? 'operations' : 'api'
  const credential = key ?? keyOf(name)
  const isForm = body instanceof FormData
  const answer = await fetch(path, {
    method,
    headers: {
      ...(credential && { 'x-api-key': credential }),
      ...(body !== undefined && !isForm && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: isForm ? body : JSON.stringify(body) }),
    ...(signal && { signal }),
    cache: 'no-store',
  }).catch((err: unknown) => {
    if (signal?.aborted) throw err
    throw new ApiFailure(0, 'unreachable', 'The gateway does not answer.')
  })
  if (!answer.ok) throw await failureOf(answer)
  return answer
}

const failureOf = async (answer: Response): Promise<ApiFailure> =>
  failureIn(answer.status, await answer.text())

function failureIn(status: number, text: string): ApiFailure {
  try {
    const { error } = JSON.parse(text) as { error: { code: string; message: string } }
    return new ApiFailure(status, error.code, error.message)
  } catch {
    return new ApiFailure(status, 'unknown', text.slice(0, 200) || `status ${status}`)
  }
}

/** Sends a form and tells which part of it is sent, from 0 to 1, which `fetch` cannot. */
export function upload(path: string, form: FormData, onSent: (part: number) => void): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const request = new XMLHttpRequest()
  request.open('POST', path)
  const key = keyOf('api')
  if (key) request.setRequestHeader('x-api-key', key)
  request.upload.addEventListener('progress', ({ loaded, total }) => onSent(total > 0 ? loaded / total : 0))
  request.addEventListener('load', () => {
    if (request.status >= 200 && request.status < 300) resolve()
    else reject(failureIn(request.status, request.responseText))
  })
  request.addEventListener('error', () =>
    reject(new ApiFailure(0, 'unreachable', 'The gateway does not answer.')),
  )
  request.send(form)
  return promise
}

/** Calls the API and yields the data of each server-sent event. */
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

/** Builds the query of an address from the values that are given. */
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
