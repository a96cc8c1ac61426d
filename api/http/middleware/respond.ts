import { isAscii } from 'node:buffer'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ApiError } from '../../../domain/errors.ts'
import { drain } from '../bodies/body.ts'
import { ERROR_BODIES } from '../errors.ts'
import { etagMatches } from '../etag.ts'
import type { Family } from '../family.ts'
import type { Outgoing } from '../outgoing.ts'
import type { ReplyHeaders } from '../reply.ts'
import type { RequestContext } from '../request-context.ts'
import type { Middleware } from './middleware.ts'

/**
 * Sends the handler's result. We don't use Koa's `ctx.body`: it capitalizes `Content-Type` and `Content-Length`, which
 * this API sends in lower case. It also writes head and body separately, ends a 304 differently, and lets a broken
 * stream look like a complete one.
 */
export const respond: Middleware = async ({ state }, next) => {
  await next()
  const sending = state.outgoing && send(state, state.outgoing)
  if (sending) await sending
}

/**
 * Writes a response; returns a promise only for streams. A matching `If-None-Match` turns a response with an ETag into
 * a 304.
 */
function send({ req, response, head }: RequestContext, outgoing: Outgoing): Promise<void> | undefined {
  const { status, body, headers } = outgoing
  const seen = addHeaders(head, headers)
  if (seen.etag !== undefined && status === 200 && etagMatches(req.headers['if-none-match'], seen.etag)) {
    if (body instanceof Readable) body.destroy()
    response.writeHead(304, head).end()
    return undefined
  }
  if (seen.etag === undefined && !seen.cacheControl) head.push('cache-control', 'no-store')

  if (body instanceof Readable) {
    response.writeHead(status, head)
    if (req.method !== 'HEAD') return pipeline(body, response)
    body.destroy()
    response.end()
    return undefined
  }
  if (body === undefined) {
    if (status !== 204 && status !== 304) head.push('content-length', '0')
    response.writeHead(status, head).end()
    return undefined
  }
  if (!seen.contentType) head.push('content-type', JSON_UTF8)
  const length = typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength
  if (!seen.contentLength) head.push('content-length', String(length))
  response.writeHead(status, head)
  if (body instanceof Uint8Array && length <= SHORT_BYTES && isAscii(body)) {
    response.end(Buffer.from(body.buffer, body.byteOffset, length).toString('latin1'), 'latin1')
  } else response.end(body)
  return undefined
}

/** A short body of one-byte characters is sent in one write with its head. */
const SHORT_BYTES = 16 * 1024

const JSON_UTF8 = 'application/json; charset=utf-8'

interface HeaderPresence {
  etag: string | undefined
  cacheControl: boolean
  contentType: boolean
  contentLength: boolean
}

const NOTHING: HeaderPresence = {
  etag: undefined,
  cacheControl: false,
  contentType: false,
  contentLength: false,
}

/** Adds the handler's headers, and returns the ones that replace a default. */
function addHeaders(head: string[], headers: ReplyHeaders | undefined): HeaderPresence {
  if (!headers) return NOTHING
  const seen = { ...NOTHING }
  // This runs for every response, so avoid building a list of entries.
  for (const name in headers) {
    const text = String(headers[name])
    const lower = name.toLowerCase()
    if (lower === 'etag') seen.etag = text
    if (lower === 'cache-control') seen.cacheControl = true
    if (lower === 'content-type') seen.contentType = true
    if (lower === 'content-length') seen.contentLength = true
    if (lower !== 'x-content-type-options') head.push(lower, text)
  }
  return seen
}

/** Writes an error in the family's format. Once the head is sent, an error can only close the connection. */
export function sendError(state: RequestContext, family: Family['errors'], error: ApiError): void {
  const { req, response, head, requestId } = state
  state.errorCode = error.code
  if (response.headersSent) {
    response.destroy()
    return
  }
  const text = JSON.stringify(ERROR_BODIES[family](error, requestId))
  // Remove headers that the handler prepared for a response that was never sent.
  for (const name of response.getHeaderNames()) if (ABOUT_BODY.has(name)) response.removeHeader(name)
  dropHeaders(head, error.headers)
  addHeaders(head, error.headers)
  head.push(
    'content-type',
    JSON_UTF8,
    'cache-control',
    'no-store',
    'content-length',
    String(Buffer.byteLength(text)),
  )
  response.writeHead(error.status, head).end(text)
  drain(req)
}

/** Removes headers that the error sets as well, such as those of another rate limit. */
function dropHeaders(head: string[], headers: ReplyHeaders | undefined): void {
  for (const name in headers) {
    const at = head.indexOf(name)
    if (at !== -1) head.splice(at, 2)
  }
}

const ABOUT_BODY = new Set([
  'content-encoding',
  'content-disposition',
  'content-range',
  'etag',
  'last-modified',
])
