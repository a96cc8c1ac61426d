import { continueAsNew, patched, setCurrentDetails, sleep, workflowInfo } from '@temporalio/workflow'
import { PAUSE } from './contract/policy.ts'
import { emit, workflowLog } from './events.ts'
import { reconcilePass, type ReconcileState } from './reconcile.ts'
import { retentionPass } from './retention.ts'

export interface HousekeepingInput {
  kind: 'reconcile' | 'retention'
  /** The state that the previous run of this workflow passed on. */
  state?: ReconcileState
  /** The pause between two passes, if it differs from the policy. */
  everyMs?: number
}

/**
 * Two of these workflows run without end: one reconciles open rows with their workflows, the other removes expired
 * data. All passes run in one execution, so that they do not crowd the list of workflows. A failed pass shows in the
 * execution's details and in the log, and does not prevent the next one.
 */
export async function housekeeping(input: HousekeepingInput): Promise<void> {
  const { kind, everyMs = PAUSE.housekeeping[kind] } = input
  // Called before the first await, so that an execution of an earlier version replays without.
  const atCohorts = kind === 'reconcile' && patched('cohorts')
  const atOverdueWork = kind === 'reconcile' && patched('overdue-work')
  // One of an earlier version would go on without for more than an hour, while new cohorts rely on it.
  const mayBeginAnew = () =>
    workflowInfo().continueAsNewSuggested || (kind === 'reconcile' && !atOverdueWork && patched('begin-anew'))
  let known = input.state
  while (!mayBeginAnew()) {
    const failures = kind === 'reconcile' ? await reconcileOnce() : (await retentionPass()).failures
    if (failures.length > 0) {
      const [first] = failures
      emit(workflowLog, 'housekeeping.pass_failed', { kind, failures: failures.length, err: first })
      setCurrentDetails(`${failures.length} steps of the last pass have failed: ${String(first)}`)
    }
    await sleep(everyMs)
  }
  await continueAsNew<typeof housekeeping>({ ...input, ...(known && { state: known }) })

  async function reconcileOnce(): Promise<readonly unknown[]> {
    const pass = await reconcilePass(known, {
      atCandidates: () => true,
      atWaitingJobs: true,
      atCohorts,
      atOverdueWork,
    })
    known = pass.state
    return pass.failures
  }
}
