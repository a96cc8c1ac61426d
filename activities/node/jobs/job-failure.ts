import { ApplicationFailure } from '@temporalio/activity'
import { ControlError } from '../../../node-runtime/control/client.ts'
import { AttemptError } from '../../../node-runtime/training/attempt-error.ts'

/** Converts an error for the workflow, which gets only its code; the text is in the row. */
export function failureOf(err: unknown): ApplicationFailure {
  if (err instanceof AttemptError) {
    const failure = {
      message: `the attempt ended: ${err.code}`,
      type: err.code,
      nonRetryable: !err.isRetryable,
    }
    return ApplicationFailure.create(failure)
  }
  const type = err instanceof ControlError ? `claim_${err.code}` : 'unreachable'
  return ApplicationFailure.create({ message: 'the job was not claimed', type })
}
