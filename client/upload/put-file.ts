import { errorOf, HearthError, unreachable } from '../errors.ts'
import type { Fetch } from '../transport.ts'

export interface PutProgress {
  sent: number
  total: number
}

export interface PutRequest {
  url: string
  file: Blob
  contentType: string
  onProgress?: ((progress: PutProgress) => void) | undefined
  signal?: AbortSignal | undefined
}

const WHAT = 'PUT of the file'

/** PUTs a file to a signed URL. Browsers report upload progress only through XMLHttpRequest. */
export async function putFile(put: PutRequest, fetch: Fetch): Promise<void> {
  const Browser = (globalThis as { XMLHttpRequest?: new () => BrowserRequest }).XMLHttpRequest
  await (Browser ? putInBrowser(put, new Browser()) : putByFetch(put, fetch))
}

async function putByFetch(
  { url, file, contentType, onProgress, signal }: PutRequest,
  fetch: Fetch,
): Promise<void> {
  let sent = 0
  const counted = file.stream().pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        sent += chunk.byteLength
        onProgress?.({ sent, total: file.size })
        controller.enqueue(chunk)
      },
    }),
  )
  const init = {
    method: 'PUT',
    // Object stores reject a body without a length.
    headers: { 'content-type': contentType, 'content-length': String(file.size) },
    body: counted,
    duplex: 'half',
    ...(signal && { signal }),
  }
  const response = await fetch(url, init as RequestInit).catch((err: unknown) => {
    signal?.throwIfAborted()
    throw unreachable(WHAT, err)
  })
  if (!response.ok) throw await errorOf(response, WHAT)
  await response.body?.cancel()
}

/** The parts of XMLHttpRequest used here. */
interface BrowserRequest {
  readonly status: number
  readonly responseText: string
  readonly upload: { onprogress: ((event: { loaded: number }) => void) | null }
  onload: (() => void) | null
  onerror: (() => void) | null
  onabort: (() => void) | null
  open(method: string, url: string): void
  setRequestHeader(name: string, value: string): void
  getAllResponseHeaders(): string
  send(body: Blob): void
  abort(): void
}

async function putInBrowser(
  { url, file, contentType, onProgress, signal }: PutRequest,
  xhr: BrowserRequest,
): Promise<void> {
  signal?.throwIfAborted()
  const stop = (): void => xhr.abort()
  signal?.addEventListener('abort', stop, { once: true })
  try {
    await new Promise<void>((resolve, reject) => {
      xhr.upload.onprogress = ({ loaded }) => onProgress?.({ sent: loaded, total: file.size })
      xhr.onload = () => resolve()
      xhr.onerror = () => reject(unreachable(WHAT, 'the connection was lost'))
      xhr.onabort = () => reject((signal?.reason as Error | undefined) ?? unreachable(WHAT, 'it was aborted'))
      xhr.open('PUT', url)
      xhr.setRequestHeader('content-type', contentType)
      xhr.send(file)
    })
  } finally {
    signal?.removeEventListener('abort', stop)
  }
  if (xhr.status >= 200 && xhr.status < 300) return
  throw await errorOf(new Response(xhr.responseText, { status: xhr.status }), WHAT)
}

/** Returns whether the signed URL itself has expired or is no longer valid. */
export const isUrlSpent = (err: unknown): boolean =>
  err instanceof HearthError && (err.status === 403 || err.status === 404)
