import type { ErrorCode } from '../schemas/errors.ts'

/**
 * `unreachable`: the request got no response, although it may have been processed. `unexpected_answer`: the response
 * came from something other than this platform, such as a proxy.
 */
export type ClientErrorCode = ErrorCode | 'unreachable' | 'unexpected_answer'

interface Failure {
  /** The HTTP status; 0 when there was no response. */
  status: number
  code: ClientErrorCode
  /** The id of the request in the platform's logs. */
  requestId?: string | undefined
  /** The seconds to wait before a retry, if the platform specified them. */
  retryAfter?: number | undefined
  /** Further details; `issues` has one entry for each validation error of a rejected request. */
  details?: Readonly<Record<string, unknown>>
  cause?: unknown
}

/** A failed request, with the platform's error code and message. */
export class HearthError extends Error {
  override readonly name = 'HearthError'
  readonly status: number
  readonly code: ClientErrorCode
  readonly requestId: string | undefined
  readonly retryAfter: number | undefined
  readonly details: Readonly<Record<string, unknown>>

  constructor(message: string, { status, code, requestId, retryAfter, details = {}, cause }: Failure) {
    super(message, cause === undefined ? undefined : { cause })
    this.status = status
    this.code = code
    this.requestId = requestId
    this.retryAfter = retryAfter
    this.details = details
  }
}

interface ErrorBody {
  error?: {
    code?: ErrorCode
    message?: string
    details?: Readonly<Record<string, unknown>>
    request_id?: string
  }
}

/** Creates the error for an unsuccessful response. */
export async function errorOf(response: Response, what: string): Promise<HearthError> {
  const { error } = (parse(await response.text().catch(() => '')) ?? {}) as ErrorBody
  const requestId = error?.request_id ?? response.headers.get('x-request-id') ?? undefined
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN)
  const known = { status: response.status, requestId, retryAfter: seconds >= 0 ? seconds : undefined }
  if (error?.code === undefined) {
    const message = `${what} returned ${response.status} in a format that this platform does not use: check the base URL`
    return new HearthError(message, { ...known, code: 'unexpected_answer' })
  }
  return new HearthError(error.message ?? error.code, {
    ...known,
    code: error.code,
    ...(error.details && { details: error.details }),
  })
}

/** Creates the error for a request that got no response. */
export function unreachable(what: string, cause: unknown): HearthError {
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause
  const why = inner instanceof Error ? inner.message : String(inner)
  return new HearthError(`${what} got no response (${why})`, { status: 0, code: 'unreachable', cause })
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
