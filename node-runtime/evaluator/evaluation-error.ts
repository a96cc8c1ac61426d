/** Thrown if a step of a structured run can't produce its result. */
export class EvaluationError extends Error {
  override readonly name = 'EvaluationError'
  readonly code: string
  /** True if a retry would fail the same way. */
  readonly isFinal: boolean

  constructor(
    code: string,
    message: string,
    { isFinal = false, cause }: { isFinal?: boolean; cause?: unknown } = {},
  ) {
    super(message, { cause })
    this.code = code
    this.isFinal = isFinal
  }
}
