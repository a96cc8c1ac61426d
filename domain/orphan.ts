/** Tests of one candidate before their going without a word is its verdict. */
const MOST_TESTS = 2

/** What becomes of a row whose workflow is not there to finish it. */
export type Orphan = 'restart' | { status: 'failed' | 'cancelled'; reason: string }

/**
 * Decides by how the workflow stands. One that runs owns its row. One that is unknown, or ended without a word on its
 * row, is started again and finds out from the row what is left to do. What an operator ended stays ended.
 */
export function orphanOf(workflow: string): Orphan | undefined {
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
 * The same for the test of a candidate, which may be made again: one that an operator terminated, or that was lost, is
 * started once more. One that was cancelled stays cancelled.
 */
export function orphanedTest(workflow: string, tests: number): Orphan | undefined {
  const orphan = orphanOf(workflow)
  if (orphan === undefined) return undefined
  if (orphan !== 'restart' && orphan.status === 'cancelled') {
    return { status: 'cancelled', reason: 'its test was cancelled' }
  }
  if (tests < MOST_TESTS) return 'restart'
  return { status: 'failed', reason: `its test ended ${MOST_TESTS} times without a verdict` }
}
