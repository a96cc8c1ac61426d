import { ERROR_STATUS, type ErrorCode } from '../schemas/errors.ts'

export type ErrorDetails = Readonly<Record<string, unknown>>

/** One thing wrong with a request: where it is, in words, and under which rule. */
export interface Issue {
  loc: readonly (string | number)[]
  msg: string
  type: string
}

/**
 * A failure the caller may see. `message`, `details` and `headers` are public; whatever only
 * operators should read travels in `cause` and is logged, never sent. A `validation_failed` names
 * its faults in `details.issues`; see `invalid()`.
 */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly code: ErrorCode
  readonly details: ErrorDetails
  readonly headers: Readonly<Record<string, string>> | undefined

  constructor(
    code: ErrorCode,
    message: string,
    options: { details?: ErrorDetails; cause?: unknown; headers?: Record<string, string> } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.details = options.details ?? {}
    this.headers = options.headers
  }

  get status(): number {
    return ERROR_STATUS[this.code]
  }
}

/** A refusal that passes by itself: says in `Retry-After` and in `details` after how many seconds to come back. */
export const tryLater = (
  code: ErrorCode,
  message: string,
  seconds: number,
  { details = {}, cause }: { details?: ErrorDetails; cause?: unknown } = {},
): ApiError =>
  new ApiError(code, message, {
    details: { ...details, retry_after_s: seconds },
    headers: { 'retry-after': String(seconds) },
    cause,
  })

/** A 422 about these places of the request; the message tells the first of them. */
export function invalidFor(issues: readonly Issue[], where = 'body'): ApiError {
  const [first] = issues
  const message = first ? `${first.loc.join('.')}: ${first.msg}` : `invalid ${where}`
  return new ApiError('validation_failed', message, { details: { issues } })
}

/**
 * A model whose weights no model server can use, however often it is asked: a 422, because clients of OpenAI's API
 * repeat a 409 and a 503 by themselves.
 */
export const unusableModel = (reason: string): ApiError =>
  new ApiError('validation_failed', `this model cannot be loaded, for good: ${reason}`, {
    details: {
      issues: [{ loc: ['body', 'model'], msg: reason, type: 'model_unusable' } satisfies Issue],
    },
  })

/** A 422 about one place of the request: `invalid(['body', 'dataset_id'], 'no such dataset')`. */
export const invalid = (loc: readonly (string | number)[], msg: string, type = 'value_error'): ApiError =>
  invalidFor([{ loc, msg, type }])
