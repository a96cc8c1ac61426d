/** Thrown if a request is invalid. The message is for the caller, and `field` names the invalid part. */
export class UnusableError extends Error {
  override readonly name = 'UnusableError'
  readonly field: string | null

  constructor(message: string, field: string | null = null) {
    super(message)
    this.field = field
  }
}
