import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { AnyRequest } from '../http/route.ts'
import type { RawList } from './raw-list.ts'
import type { Refusal } from './refusals.ts'

/** The headers that the protocol's server reads, in addition to the protocol's own. */
const READ: ReadonlySet<string> = new Set(['content-type', 'last-event-id'])

const STREAM = 'text/event-stream'
const JSON_TYPE = 'application/json'

/** The response forms that a client accepts. */
export interface AcceptedForms {
  readonly json: boolean
  readonly stream: boolean
}

/** Reads the `Accept` header; a client without one accepts both forms. */
export function acceptedForms({ headers: { accept = '*/*' } }: IncomingMessage): AcceptedForms {
  const types = accept.split(',').map((range) => range.split(';', 1)[0]?.trim().toLowerCase())
  const accepts = (...names: string[]) => names.some((name) => types.includes(name))
  return { json: accepts(JSON_TYPE, 'application/*', '*/*'), stream: accepts(STREAM, 'text/*', '*/*') }
}

/**
 * Returns a request's head for the protocol's server, without the credential. That server would reject a client that
 * accepts only one form, so claim both here; `sendResponse` then sends the accepted form.
 */
export function webRequest({ req, signal }: AnyRequest, { json, stream }: AcceptedForms): Request {
  const headers = new Headers()
  for (const [name, value] of Object.entries(req.headers)) {
    if (typeof value === 'string' && (name.startsWith('mcp-') || READ.has(name))) headers.set(name, value)
  }
  if (json || stream) headers.set('accept', `${JSON_TYPE}, ${STREAM}`)
  return new Request('http://gateway/mcp', { method: 'POST', headers, signal })
}

/** Sends an error without involving the protocol's server. */
export function refuse({ status, body }: Refusal, { res }: AnyRequest): void {
  const text = Buffer.from(JSON.stringify(body))
  const headers = { 'content-type': 'application/json', 'cache-control': 'no-store' }
  res.writeHead(status, { ...headers, 'content-length': text.length }).end(text)
}

/**
 * Sends a response from the protocol's server: at once if it is complete, or else event by event until the signal
 * aborts. A client that accepts only one form gets the same message in that form; in JSON, without the preceding
 * progress.
 */
export async function sendResponse(
  given: Response,
  { res, signal, forms }: Pick<AnyRequest, 'res' | 'signal'> & { forms: AcceptedForms },
  list: RawList,
): Promise<void> {
  const response = await inForm(given, forms)
  const { status, headers, body } = response
  for (const [name, value] of headers) res.setHeader(name, value)
  if (!headers.has('cache-control')) res.setHeader('cache-control', 'no-store')
  if (!body || !isStream(response)) {
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
      // Each chunk is a whole event.
      for (const piece of list.fill(Buffer.from(value).toString())) res.write(piece)
      if (res.writableNeedDrain) await once(res, 'drain', { signal })
    }
  } finally {
    signal.removeEventListener('abort', leave)
    res.end()
  }
}

const isStream = ({ headers }: Response): boolean => headers.get('content-type')?.startsWith(STREAM) === true

async function inForm(response: Response, { json, stream }: AcceptedForms): Promise<Response> {
  const { status, body } = response
  if (!body || !response.ok) return response
  if (isStream(response)) return stream ? response : whole(await response.text(), status, JSON_TYPE)
  return json ? response : whole(await response.text(), status, STREAM)
}

/** Returns the message of a response in the other form. */
function whole(text: string, status: number, form: string): Response {
  const body = form === STREAM ? `event: message\ndata: ${text}\n\n` : lastMessage(text)
  return new Response(body, { status, headers: { 'content-type': form } })
}

/** Returns the last message of an event stream, which is the response; all messages before it are notifications. */
function lastMessage(events: string): string {
  const messages = events.split('\n').filter((line) => line.startsWith('data:'))
  return messages.at(-1)?.slice('data:'.length).trim() ?? ''
}
