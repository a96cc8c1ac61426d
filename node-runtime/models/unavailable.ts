/** Thrown if a model is not available on this node now. */
export class ModelUnavailableError extends Error {
  override readonly name = 'ModelUnavailableError'
  readonly code: 'no_capacity' | 'load_failed' | 'unusable' | 'backing_off' | 'stopping'

  constructor(code: ModelUnavailableError['code'], message: string, cause?: unknown) {
    super(message, { cause })
    this.code = code
  }
}
