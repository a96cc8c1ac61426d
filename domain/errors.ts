import { ERROR_STATUS, type ErrorCode } from '../schemas/errors.ts'

export type ErrorDetails = Readonly<Record<string, unknown>>

/** One fault of a request: its location, a message, and the rule that it breaks. */
export interface Issue {
  loc: readonly (string | number)[]
  msg: string
  type: string
}

/**
 * An error that the caller may see. `message`, `details` and `headers` are public. Information for operators travels in
 * `cause`, which is logged and never sent. A `validation_failed` lists its faults in `details.issues`; see `invalid()`.
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

/** Makes a temporary refusal: `Retry-After` and `details` have the seconds after which the caller may retry. */
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

/** The seconds after which a write that found no room is worth repeating. */
const ROOM_RETRY_S = 10
/** The `details.reason` of a refusal for lack of room, by which nodes tell it from other lacks of capacity. */
export const STORAGE_FULL = 'storage_full'

/** The code with which a node gives back an attempt that filled its disk. It does not count against the run. */
export const DISK_FULL = 'disk_full'

/** Makes the 503 for a write that found no room. `what` names the full system: `object store`, `database`. */
export const storageFull = (what: string, cause?: unknown): ApiError =>
  temporaryError(
    'no_capacity',
    `the ${what} of this platform has no room for this now; try again later. An operator has to free or add space`,
    ROOM_RETRY_S,
    { details: { reason: STORAGE_FULL }, cause },
  )

/** Makes a 422 with these faults; the message is that of the first. */
export function invalidFor(issues: readonly Issue[], where = 'body'): ApiError {
  const [first] = issues
  const message = first ? `${first.loc.join('.')}: ${first.msg}` : `invalid ${where}`
  return new ApiError('validation_failed', message, { details: { issues } })
}

/**
 * Makes the error for a model whose weights no model server can load. It is a 422, because clients of OpenAI's API
 * retry a 409 and a 503 by themselves.
 */
export const unusableModel = (reason: string): ApiError =>
  new ApiError('validation_failed', `this model cannot be loaded, for good: ${reason}`, {
    details: {
      issues: [{ loc: ['body', 'model'], msg: reason, type: 'model_unusable' } satisfies Issue],
    },
  })

/** Makes a 422 for one location of the request: `invalid(['body', 'dataset_id'], 'no such dataset')`. */
export const invalid = (loc: readonly (string | number)[], msg: string, type = 'value_error'): ApiError =>
  invalidFor([{ loc, msg, type }])
