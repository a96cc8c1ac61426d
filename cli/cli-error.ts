import type { Issue } from '../domain/errors.ts'

/** An error whose message is all a user needs, so it's printed without a stack. */
export class CliError extends Error {
  override readonly name: string = 'CliError'
  readonly exitCode: number
  /** The validation errors of a rejected request, with their paths. */
  readonly issues: readonly Issue[]

  constructor(message: string, exitCode = 1, issues: readonly Issue[] = []) {
    super(message)
    this.exitCode = exitCode
    this.issues = issues
  }
}

/** A transient failure: the platform didn't answer or was unavailable, so a retry may succeed. */
export class PassingError extends CliError {
  override readonly name = 'PassingError'
}

/** Returns the error for a mistake in the command line or the environment. */
export const usageError = (message: string): CliError => new CliError(message, WRONG_USE)

export const WRONG_USE = 2
