/** The request cannot be answered as it is; the text is for the caller, `field` names the part that is meant. */
export class UnusableError extends Error {
  override readonly name = 'UnusableError'
  readonly field: string | null

  constructor(message: string, field: string | null = null) {
    super(message)
    this.field = field
  }
}
