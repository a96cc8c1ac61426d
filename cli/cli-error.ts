/** A failure that its sentence explains: printed without a stack. */
export class CliError extends Error {
  override readonly name = 'CliError'
  readonly exitCode: number

  constructor(message: string, exitCode = 1) {
    super(message)
    this.exitCode = exitCode
  }
}

/** A mistake in what was typed, or in the environment. */
export const usageError = (message: string): CliError => new CliError(message, WRONG_USE)

export const WRONG_USE = 2
