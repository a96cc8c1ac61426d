import type { EdgeFailure } from '../../schemas/cohort-vocabulary.ts'

/** What no further attempt between the same two models can change. */
const FINAL: readonly EdgeFailure[] = ['evidence_revoked', 'space_revoked', 'space_mismatch']

/** A hand-over that cannot succeed in this attempt; `failure` is told to the platform. */
export class EdgeError extends Error {
  override readonly name = 'EdgeError'
  readonly failure: EdgeFailure

  constructor(failure: EdgeFailure, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.failure = failure
  }

  /** False when the stage would fail alike at every further attempt. */
  get retryable(): boolean {
    return !FINAL.includes(this.failure)
  }
}
