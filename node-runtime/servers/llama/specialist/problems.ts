/** The request is invalid; the message names the field, and `path` is its JSON pointer. */
export class InputProblem extends Error {
  override readonly name = 'InputProblem'
  readonly path: string

  constructor(message: string, path: string) {
    super(message)
    this.path = path
  }
}

/** The model answered with something that is no result; the message is for the caller. */
export class BadOutput extends Error {
  override readonly name = 'BadOutput'
}
