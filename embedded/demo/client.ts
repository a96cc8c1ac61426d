import { request } from 'undici'

/** The Builder API as any client sees it: URLs, a key, JSON. */
export interface BuilderClient {
  get<T>(path: string): Promise<T>
  post<T>(path: string, body?: unknown): Promise<T>
  upload<T>(path: string, file: UploadFile, fields: Record<string, string>): Promise<T>
}

interface UploadFile {
  name: string
  bytes: Buffer
  /** Its media type. */
  type?: string
}

/** An answer other than 2xx, with the code and the sentence of the platform. */
export class AnswerError extends Error {
  override readonly name = 'AnswerError'
  readonly code: string | undefined
  readonly reason: string

  constructor(path: string, statusCode: number, text: string) {
    super(`${path} answered ${statusCode}: ${text.slice(0, 500)}`)
    const { code, message } = faultOf(text)
    this.code = code
    this.reason = message ?? this.message
  }
}

function faultOf(text: string): { code?: string; message?: string } {
  try {
    return (JSON.parse(text) as { error?: { code?: string; message?: string } }).error ?? {}
  } catch {
    return {}
  }
}

/** Makes a client of a running platform; a response other than 2xx throws with the platform's own message. */
export function builderClient(baseUrl: string, apiKey: string): BuilderClient {
  const url = (path: string) => `${baseUrl}/api/builder/v1${path}`
  const headers = { 'x-api-key': apiKey }
  return {
    get: async (path) => answerOf(path, await request(url(path), { headers })),
    post: async (path, body = {}) =>
      answerOf(
        path,
        await request(url(path), {
          method: 'POST',
          headers: { ...headers, 'content-type': 'application/json' },
          body: JSON.stringify(body),
        }),
      ),
    async upload(path, { name, bytes, type = '' }, fields) {
      const form = new FormData()
      for (const [field, value] of Object.entries(fields)) form.append(field, value)
      form.append('file', new Blob([new Uint8Array(bytes)], { type }), name)
      // undici's own FormData is not used, because its request hangs when undici was loaded before Node's fetch (8.12).
      const answer = await fetch(url(path), { method: 'POST', headers, body: form })
      return answerOf(path, { statusCode: answer.status, body: answer })
    },
  }
}

interface Answer {
  statusCode: number
  body: { text(): Promise<string> }
}

async function answerOf<T>(path: string, { statusCode, body }: Answer): Promise<T> {
  const text = await body.text()
  if (statusCode >= 300) throw new AnswerError(path, statusCode, text)
  return JSON.parse(text) as T
}
