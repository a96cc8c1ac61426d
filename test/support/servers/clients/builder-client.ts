import { request } from 'undici'

/** A client for the Builder API that never retries, unlike `client/`, because a retry would hide a fault. */
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

/** Creates a client for a running platform. Throws the platform's message for a response other than 2xx. */
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
      // We don't use undici's FormData, because its request hangs when undici was loaded before Node's fetch (8.12).
      const answer = await fetch(url(path), { method: 'POST', headers, body: form })
      return answerOf(path, { statusCode: answer.status, body: answer })
    },
  }
}

/** Uploads a table with the columns of the demo. */
export const uploadTable = (
  api: BuilderClient,
  csv: Buffer,
): Promise<{ dataset_id: string; num_samples: number }> =>
  api.upload(
    '/datasets/upload',
    { name: 'diabetes.csv', bytes: csv },
    { name: 'diabetes', storage_format: 'csv' },
  )

interface Answer {
  statusCode: number
  body: { text(): Promise<string> }
}

async function answerOf<T>(path: string, { statusCode, body }: Answer): Promise<T> {
  const text = await body.text()
  if (statusCode >= 300) throw new Error(`${path} answered ${statusCode}: ${text.slice(0, 500)}`)
  return JSON.parse(text) as T
}
