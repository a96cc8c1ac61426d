/** The reason why a step of a structured run ended without its result. */
export class EvaluationError extends Error {
  override readonly name = 'EvaluationError'
  readonly code: string
  /** True when another try would end alike. */
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
