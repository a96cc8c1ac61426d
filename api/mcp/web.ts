import { once } from 'node:events'
import type { AnyRequest } from '../http/route.ts'
import type { RawList } from './raw-list.ts'
import type { Refusal } from './refusals.ts'

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

/** Sends an error that the protocol's server is not asked about. */
export function refuse({ status, body }: Refusal, { res }: AnyRequest): void {
  const text = Buffer.from(JSON.stringify(body))
  const headers = { 'content-type': 'application/json', 'cache-control': 'no-store' }
  res.writeHead(status, { ...headers, 'content-length': text.length }).end(text)
}

/** Sends a response of the protocol's server: at once when it is whole, else as its events come until the signal aborts. */
export async function sendResponse(
  response: Response,
  { res, signal }: Pick<AnyRequest, 'res' | 'signal'>,
  list: RawList,
): Promise<void> {
  const { status, headers, body } = response
  for (const [name, value] of headers) res.setHeader(name, value)
  if (!headers.has('cache-control')) res.setHeader('cache-control', 'no-store')
  if (!body || !headers.get('content-type')?.startsWith('text/event-stream')) {
    const pieces = list.fill(await response.text())
    res.cork()
    res.writeHead(status, { 'content-length': pieces.reduce((sum, { length }) => sum + length, 0) })
    for (const piece of pieces) res.write(piece)
    res.end()
    res.uncork()
    return
  }
  res.writeHead(status).flushHeaders()
  const reader = body.getReader()
  const leave = () => void reader.cancel().catch(() => {})
  signal.addEventListener('abort', leave, { once: true })
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done || res.destroyed) break
      // A chunk is a whole event.
      for (const piece of list.fill(Buffer.from(value).toString())) res.write(piece)
      if (res.writableNeedDrain) await once(res, 'drain', { signal })
    }
  } finally {
    signal.removeEventListener('abort', leave)
    res.end()
  }
}
