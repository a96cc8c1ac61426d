/** A candidate fails once this many tests have ended without a verdict. */
const MAX_TESTS = 2

/** The action for a row whose workflow ended without finishing it. */
export type OrphanAction = 'restart' | { status: 'failed' | 'cancelled'; reason: string }

/**
 * Decides based on the status of the row's workflow. A running workflow owns its row. An unknown workflow, or one that
 * completed without finishing its row, is restarted and reads the remaining steps from the row. A workflow that an
 * operator ended is not restarted.
 */
export function orphanOf(workflow: string): OrphanAction | undefined {
  switch (workflow) {
    case 'RUNNING':
    case 'PAUSED':
    case 'CONTINUED_AS_NEW':
      return undefined
    case 'TERMINATED':
      return { status: 'failed', reason: 'an operator terminated the workflow' }
    case 'CANCELLED':
      return { status: 'cancelled', reason: 'an operator cancelled the workflow' }
    case 'FAILED':
    case 'TIMED_OUT':
      return { status: 'failed', reason: 'an internal error ended the workflow' }
    default:
      return 'restart'
  }
}

/**
 * Makes the same decision for a candidate's test, which may run again: a test that was lost, or that an operator
 * terminated, is restarted. A cancelled test is not.
 */
export function orphanedTest(workflow: string, tests: number): OrphanAction | undefined {
  const orphan = orphanOf(workflow)
  if (orphan === undefined) return undefined
  if (orphan !== 'restart' && orphan.status === 'cancelled') {
    return { status: 'cancelled', reason: 'its test was cancelled' }
  }
  if (tests < MAX_TESTS) return 'restart'
  return { status: 'failed', reason: `its test ended ${MAX_TESTS} times without a verdict` }
}
