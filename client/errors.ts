import type { ErrorCode } from '../schemas/errors.ts'

/**
 * `unreachable`: no answer came, and the request may have happened. `unexpected_answer`: something answered that is not
 * this platform, such as a proxy.
 */
export type ClientErrorCode = ErrorCode | 'unreachable' | 'unexpected_answer'

interface Failure {
  /** The HTTP status; 0 when there was no answer. */
  status: number
  code: ClientErrorCode
  /** The id under which the platform's logs have the request. */
  requestId?: string | undefined
  /** The seconds after which to try again, where the platform has said so. */
  retryAfter?: number | undefined
  /** What else is known; `issues` has one entry for each fault of a refused request. */
  details?: Readonly<Record<string, unknown>>
  cause?: unknown
}

/** A request that failed, with the code and the sentence of the platform. */
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

/** Makes the error of an answer that is not a success. */
export async function errorOf(response: Response, what: string): Promise<HearthError> {
  const { error } = (parse(await response.text().catch(() => '')) ?? {}) as ErrorBody
  const requestId = error?.request_id ?? response.headers.get('x-request-id') ?? undefined
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN)
  const known = { status: response.status, requestId, retryAfter: seconds >= 0 ? seconds : undefined }
  if (error?.code === undefined) {
    const message = `${what} answered ${response.status}, and not in the way of this platform: is that its address?`
    return new HearthError(message, { ...known, code: 'unexpected_answer' })
  }
  return new HearthError(error.message ?? error.code, {
    ...known,
    code: error.code,
    ...(error.details && { details: error.details }),
  })
}

/** Makes the error of a request that got no answer. */
export function unreachable(what: string, cause: unknown): HearthError {
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause
  const why = inner instanceof Error ? inner.message : String(inner)
  return new HearthError(`${what} gave no answer (${why})`, { status: 0, code: 'unreachable', cause })
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
