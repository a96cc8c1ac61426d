import { once } from 'node:events'
import type { AnyRequest } from '../http/route.ts'

/** The headers that the protocol reads, beside its own. */
const READ: ReadonlySet<string> = new Set(['accept', 'content-type', 'last-event-id'])

/** Returns the head of a request as the protocol's server takes it, without the credential. */
export function webRequest({ req, signal }: AnyRequest): Request {
  const headers = new Headers()
  for (const [name, value] of Object.entries(req.headers)) {
    if (typeof value === 'string' && (name.startsWith('mcp-') || READ.has(name))) headers.set(name, value)
  }
  return new Request('http://gateway/mcp', { method: 'POST', headers, signal })
}

/** Sends a response of the protocol's server: at once when it is whole, else as its events come. */
export async function sendResponse(response: Response, { res, signal }: AnyRequest): Promise<void> {
  const { status, headers, body } = response
  for (const [name, value] of headers) res.setHeader(name, value)
  if (!headers.has('cache-control')) res.setHeader('cache-control', 'no-store')
  if (!body || !headers.get('content-type')?.startsWith('text/event-stream')) {
    const bytes = Buffer.from(await response.arrayBuffer())
    res.writeHead(status, { 'content-length': bytes.length }).end(bytes)
    return
  }
  res.writeHead(status)
  const reader = body.getReader()
  const leave = () => void reader.cancel().catch(() => {})
  signal.addEventListener('abort', leave, { once: true })
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done || res.destroyed) break
      if (!res.write(value)) await once(res, 'drain', { signal })
    }
  } finally {
    signal.removeEventListener('abort', leave)
    res.end()
  }
}
