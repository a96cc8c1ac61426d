import type { EdgeFailure } from '../../schemas/cohort-vocabulary.ts'

/** A hand-over that cannot succeed in this attempt; `failure` is told to the platform. */
export class EdgeError extends Error {
  override readonly name = 'EdgeError'
  readonly failure: EdgeFailure

  constructor(failure: EdgeFailure, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.failure = failure
  }
}
