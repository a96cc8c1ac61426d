import { ApplicationFailure } from '@temporalio/activity'
import { DISK_FULL } from '../../../domain/errors.ts'
import { ControlError } from '../../../node-runtime/control/client.ts'
import { AttemptError } from '../../../node-runtime/training/attempt-error.ts'

/**
 * Converts an error for the workflow, which gets only its code; the text is in the row. The workflow sees a full disk
 * as a draining node: workers of any version then offer the job again without counting the attempt.
 */
export function failureOf(err: unknown): ApplicationFailure {
  if (err instanceof AttemptError) {
    const failure = {
      message: `the attempt ended: ${err.code}`,
      type: err.code === DISK_FULL ? 'drained' : err.code,
      nonRetryable: !err.isRetryable,
    }
    return ApplicationFailure.create(failure)
  }
  const type = err instanceof ControlError ? `claim_${err.code}` : 'unreachable'
  return ApplicationFailure.create({ message: 'the job was not claimed', type })
}
