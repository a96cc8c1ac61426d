/** Thrown for an invalid request. The message names the field, and `path` is its JSON pointer. */
export class InputProblem extends Error {
  override readonly name = 'InputProblem'
  readonly path: string

  constructor(message: string, path: string) {
    super(message)
    this.path = path
  }
}

/** Thrown if the model returns an invalid result. The message is for the caller. */
export class BadOutput extends Error {
  override readonly name = 'BadOutput'
}
