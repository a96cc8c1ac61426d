import type { EdgeFailure } from '../../schemas/cohorts/vocabulary.ts'

/** Failures that no further attempt between the same two models can fix. */
const FINAL: readonly EdgeFailure[] = ['evidence_revoked', 'space_revoked', 'space_mismatch']

/** A hand-over that cannot succeed in this attempt; the node reports `failure` to the platform. */
export class EdgeError extends Error {
  override readonly name = 'EdgeError'
  readonly failure: EdgeFailure

  constructor(failure: EdgeFailure, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.failure = failure
  }

  /** False when every further attempt of the stage would fail the same way. */
  get retryable(): boolean {
    return !FINAL.includes(this.failure)
  }
}
