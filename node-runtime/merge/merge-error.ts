/** Thrown if files can't be merged; a retry would fail again. */
export class MergeError extends Error {
  override readonly name = 'MergeError'
  /** The code in the body of `:fail`, for programs. */
  readonly code: string

  constructor(code: string, message: string, options: { cause?: unknown } = {}) {
    super(message, options)
    this.code = code
  }
}
