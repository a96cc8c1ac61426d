import type { Issue } from '../domain/errors.ts'

/** A failure whose message explains it, so it is printed without a stack. */
export class CliError extends Error {
  override readonly name: string = 'CliError'
  readonly exitCode: number
  /** The faults of a request that was refused, with their places in it. */
  readonly issues: readonly Issue[]

  constructor(message: string, exitCode = 1, issues: readonly Issue[] = []) {
    super(message)
    this.exitCode = exitCode
    this.issues = issues
  }
}

/** The platform did not answer, or could not just then: a repeat may succeed. */
export class PassingError extends CliError {
  override readonly name = 'PassingError'
}

/** Makes the error for a mistake in the command line or the environment. */
export const usageError = (message: string): CliError => new CliError(message, WRONG_USE)

export const WRONG_USE = 2
