import { type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { ApiError } from '../../../domain/errors.ts'
import { newId } from '../../../domain/ids.ts'
import type { Logger } from '../../../platform/log.ts'
import { emit } from '../../events.ts'
import { ERROR_BODIES } from '../errors.ts'

/** Responds in the usual error format to bytes that aren't a valid HTTP request, and logs the request. */
export function answerMalformed(err: NodeJS.ErrnoException, socket: Duplex, log?: Logger): void {
  if (err.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const [status, message] = reasonOf(err.code)
  const requestId = newId()
  const text = JSON.stringify(ERROR_BODIES.builder(new ApiError('bad_request', message), requestId))
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'connection: close',
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(text)}`,
    `x-request-id: ${requestId}`,
  ]
  if (log) emit(log, 'request.malformed', { request_id: requestId, status, reason: err.code }, { message })
  socket.end(`${head.join('\r\n')}\r\n\r\n${text}`)
}

/**
 * Responds to a request whose body has stalled, and closes its connection, because later bytes could be part of the
 * body or of another request.
 */
export function answerTimeout(response: ServerResponse, log?: Logger): void {
  const { req } = response
  const requestId = newId()
  const error = new ApiError('request_timeout', 'the request body stalled or arrived too slowly')
  const bodies = req.url?.startsWith('/v1/') ? ERROR_BODIES.openai : ERROR_BODIES.builder
  const text = JSON.stringify(bodies(error, requestId))
  if (log)
    emit(
      log,
      'request.timed_out',
      { request_id: requestId, status: error.status },
      { message: error.message },
    )
  response
    .writeHead(error.status, {
      connection: 'close',
      'content-type': 'application/json; charset=utf-8',
      'content-length': Buffer.byteLength(text),
      'x-request-id': requestId,
    })
    .end(text)
}

function reasonOf(code: string | undefined): [number, string] {
  if (code === 'HPE_HEADER_OVERFLOW') return [431, 'the headers are too large']
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return [408, 'the request head did not arrive in time']
  if (code === 'HPE_INVALID_EOF_STATE') return [400, 'the request ended before it was complete']
  return [400, 'this is not a well-formed HTTP request']
}
