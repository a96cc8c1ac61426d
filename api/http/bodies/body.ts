import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { ApiError } from '../../../domain/errors.ts'

/** The client closed the connection before its request was complete, so no response is possible. */
export class ClientGoneError extends Error {
  override readonly name = 'ClientGoneError'
}

const EMPTY = Buffer.alloc(0)
const DRAIN_TIMEOUT_MS = 30_000
const MIB = 1024 * 1024
/** The default size limit for JSON bodies. */
export const MAX_JSON_BYTES = MIB
/** The largest JSON body takes this long at 2 Mbit/s. Without a limit, a slow client would hold its memory forever. */
const BODY_TIMEOUT_MS = 5 * 60_000

export const hasBody = (req: IncomingMessage): boolean =>
  req.headers['transfer-encoding'] !== undefined || (req.headers['content-length'] ?? '0') !== '0'

/** Returns the declared length of the body; 0 without one. */
export const declaredLength = (req: IncomingMessage): number => Number(req.headers['content-length'] ?? 0)

/**
 * The destination of a body. `hold` is called with the size of each piece before we store it, and throws if there is no
 * memory left.
 */
interface BodySink {
  readonly hold: (bytes: number) => void
  readonly done: (body: Buffer) => void
}

/** Reads the body into memory, at most `maxBytes` of it, whether or not its length was declared. */
export function readBody(req: IncomingMessage, maxBytes: number, { hold, done }: BodySink): Promise<void> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    let firstAt = 0
    const onData = (chunk: Buffer): void => {
      size += chunk.length
      try {
        if (size > maxBytes) throw tooLarge(maxBytes)
        if (chunks.length === 0) firstAt = performance.now()
        else checkPace(firstAt)
        hold(chunk.length)
        chunks.push(chunk)
      } catch (err) {
        chunks.length = 0
        req.off('data', onData).pause()
        reject(err as Error)
      }
    }
    // We never remove the listeners: the request ends with its body, and settling twice does nothing.
    req
      .on('data', onData)
      .on('end', () => {
        done(chunks.length === 1 ? (chunks[0] ?? EMPTY) : Buffer.concat(chunks, size))
        // The listeners live as long as the request, which may outlive the need for its body.
        chunks.length = 0
        resolve()
      })
      .on('close', () => {
        if (!req.complete) reject(new ClientGoneError('the client disconnected before its body was complete'))
      })
  })
}

/** Throws if a body in memory whose first bytes arrived at `firstAt` is taking too long. */
export function checkPace(firstAt: number): void {
  if (performance.now() - firstAt > BODY_TIMEOUT_MS)
    throw new ApiError('request_timeout', 'the body arrived too slowly')
}

/** Creates a 413. `what` is the part that is too large; `hint` ends the sentence. */
export const tooLarge = (maxBytes: number, what = 'body', hint = ''): ApiError =>
  new ApiError('payload_too_large', `the ${what} is larger than ${formatBytes(maxBytes)}${hint}`, {
    details: { max_bytes: maxBytes },
  })

/** The maximum file size of a form, and a hint for the error of a larger file. */
export interface FileLimit {
  maxBytes: number
  /** Ends the sentence of a 413. */
  hint?: string
}

export const fileTooLarge = ({ maxBytes, hint }: FileLimit): ApiError => tooLarge(maxBytes, 'file', hint)

const formatBytes = (bytes: number): string =>
  bytes % MIB === 0 ? `${bytes / MIB} MB (${bytes} bytes)` : `${bytes} bytes`

/**
 * Discards what the client still sends, for a while. Closing at once would reset the connection, and the client might
 * lose the response before reading it.
 */
export function drain(req: IncomingMessage): void {
  if (req.complete || req.destroyed) return
  const { socket } = req
  req.unpipe()
  req.removeAllListeners('data')
  req.on('error', () => {})
  req.resume()
  const timer = setTimeout(() => socket.destroy(), DRAIN_TIMEOUT_MS).unref()
  req.once('close', () => clearTimeout(timer))
}

/** Parses a JSON body whose media type has been checked. */
export function parseJson(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw new ApiError('bad_request', 'the body is not valid UTF-8')
  try {
    return JSON.parse(bytes.toString())
  } catch (cause) {
    const why = cause instanceof Error ? cause.message.slice(0, 200) : 'unreadable'
    throw new ApiError('bad_request', `the body is not valid JSON: ${why}`, { cause })
  }
}

/** Rejects a body whose media type is not one of `allowed`; a body without a type counts as JSON. */
export function checkMediaType(req: IncomingMessage, allowed: readonly string[]): void {
  const encoding = req.headers['content-encoding']
  if (encoding !== undefined && encoding !== 'identity') {
    throw new ApiError('unsupported_media_type', `content-encoding ${encoding} is not supported`)
  }

  const header = req.headers['content-type']
  if (header === undefined || header === allowed[0]) return
  const [type = '', ...parameters] = header.toLowerCase().split(';')
  if (!allowed.includes(type.trim()) && !allowed.includes('*')) {
    throw new ApiError('unsupported_media_type', `content-type must be ${allowed.join(' or ')}`)
  }
  const charset = parameters.map((text) => text.trim()).find((text) => text.startsWith('charset='))
  if (allowed[0] === JSON_TYPE && charset && !/^charset="?utf-?8"?$/.test(charset)) {
    throw new ApiError('unsupported_media_type', 'JSON must be UTF-8')
  }
}

export const JSON_TYPE = 'application/json'
