/** Why these files cannot be merged; trying again is of no use. */
export class MergeError extends Error {
  override readonly name = 'MergeError'
  /** For machines, as in the body of `:fail`. */
  readonly code: string

  constructor(code: string, message: string, options: { cause?: unknown } = {}) {
    super(message, options)
    this.code = code
  }
}
