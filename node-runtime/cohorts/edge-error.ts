import type { EdgeFailure } from '../../schemas/cohort-vocabulary.ts'

/** A hand-over failed, which ends the attempt of its stage. Another attempt may succeed. */
export class EdgeError extends Error {
  override readonly name = 'EdgeError'
  readonly failure: EdgeFailure

  constructor(failure: EdgeFailure, message: string) {
    super(message)
    this.failure = failure
  }
}
