/** The message of an attempt that ended because its run was paused. */
export const PAUSED = 'The run was paused.'

/** Thrown if an attempt at a job ends without a result. */
export class AttemptError extends Error {
  override readonly name = 'AttemptError'
  /** The code in the body of `:fail`, for programs. */
  readonly code: string
  readonly isRetryable: boolean

  constructor(code: string, message: string, options: { retryable?: boolean; cause?: unknown } = {}) {
    super(message, { cause: options.cause })
    this.code = code
    this.isRetryable = options.retryable ?? true
  }
}
