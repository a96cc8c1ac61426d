import { ERROR_STATUS, type ErrorCode } from '../schemas/errors.ts'

export type ErrorDetails = Readonly<Record<string, unknown>>

/** One validation error of a request: its location, a message and the broken rule. */
export interface Issue {
  loc: readonly (string | number)[]
  msg: string
  type: string
}

/**
 * An error whose `message`, `details` and `headers` the caller sees. Information for operators goes into `cause`, which
 * is logged and never sent. A `validation_failed` lists its errors in `details.issues`; see `invalid()`.
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

/** Creates a temporary error: `Retry-After` and `details` hold the seconds after which the caller may retry. */
export const temporaryError = (
  code: ErrorCode,
  message: string,
  seconds: number,
  {
    details = {},
    headers,
    cause,
  }: { details?: ErrorDetails; headers?: Record<string, string>; cause?: unknown } = {},
): ApiError =>
  new ApiError(code, message, {
    details: { ...details, retry_after_s: seconds },
    headers: { ...headers, 'retry-after': String(seconds) },
    cause,
  })

/** How long a caller should wait before repeating a write that failed for lack of space, in seconds. */
const STORAGE_RETRY_AFTER_S = 10
/**
 * The `details.reason` of a rejection for lack of space, by which nodes distinguish it from other capacity shortages.
 */
export const STORAGE_FULL = 'storage_full'

/** The code with which a node returns an attempt that filled its disk. It doesn't count against the run. */
export const DISK_FULL = 'disk_full'

/**
 * Creates the 503 for a write that failed for lack of space. `what` names the system that is full: `object store`,
 * `database`.
 */
export const storageFull = (what: string, cause?: unknown): ApiError =>
  temporaryError(
    'no_capacity',
    `the ${what} of this platform is out of space; try again later. An operator has to free or add space`,
    STORAGE_RETRY_AFTER_S,
    { details: { reason: STORAGE_FULL }, cause },
  )

/** Creates a 422 with these errors; its message is the first error's. */
export function invalidFor(issues: readonly Issue[], where = 'body'): ApiError {
  const [first] = issues
  const message = first ? `${first.loc.join('.')}: ${first.msg}` : `invalid ${where}`
  return new ApiError('validation_failed', message, { details: { issues } })
}

/**
 * Creates the error for a model whose weights no model server can load. It is a 422, because clients of OpenAI's API
 * automatically retry a 409 and a 503.
 */
export const unusableModel = (reason: string): ApiError =>
  new ApiError('validation_failed', `this model can never be loaded: ${reason}`, {
    details: {
      issues: [{ loc: ['body', 'model'], msg: reason, type: 'model_unusable' } satisfies Issue],
    },
  })

/** Creates a 422 for one location of the request: `invalid(['body', 'dataset_id'], 'no such dataset')`. */
export const invalid = (loc: readonly (string | number)[], msg: string, type = 'value_error'): ApiError =>
  invalidFor([{ loc, msg, type }])
