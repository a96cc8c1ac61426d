/** A failure whose message explains it, so it is printed without a stack. */
export class CliError extends Error {
  override readonly name = 'CliError'
  readonly exitCode: number

  constructor(message: string, exitCode = 1) {
    super(message)
    this.exitCode = exitCode
  }
}

/** Makes the error for a mistake in the command line or the environment. */
export const usageError = (message: string): CliError => new CliError(message, WRONG_USE)

export const WRONG_USE = 2
