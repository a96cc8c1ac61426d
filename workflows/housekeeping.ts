import { continueAsNew, setCurrentDetails, sleep, workflowInfo } from '@temporalio/workflow'
import { PAUSE } from './contract/policy.ts'
import { emit, workflowLog } from './events.ts'
import { reconcileCohortsPass, reconcilePass, type ReconcileState } from './reconcile.ts'
import { retentionPass } from './retention.ts'

export interface HousekeepingInput {
  kind: 'reconcile' | 'retention'
  /** The state that the previous run of this workflow passed on. */
  state?: ReconcileState
  /** The pause between two passes, if it differs from the policy. */
  everyMs?: number
}

/**
 * Two of these workflows run endlessly: one reconciles open rows with their workflows, the other removes expired data.
 * All passes run in one execution, so that they do not crowd the list of workflows. A failed pass appears in the
 * execution's details and in the log, and does not prevent the next one.
 */
export async function housekeeping(input: HousekeepingInput): Promise<void> {
  const { kind, everyMs = PAUSE.housekeeping[kind] } = input
  let known = input.state
  await repeatPasses(kind, everyMs, async () => {
    if (kind === 'retention') return (await retentionPass()).failures
    const { state, failures } = await reconcilePass(known)
    known = state
    return failures
  })
  await continueAsNew<typeof housekeeping>({ ...input, ...(known && { state: known }) })
}

export interface CohortHousekeepingInput {
  /** The last cohort that the previous pass examined; null or absent for the first pass. */
  after?: string | null
  /** The pause between two passes, if it differs from the policy. */
  everyMs?: number
}

/**
 * Reconciles cohorts with their workflows, and ends their overdue work. This is a separate workflow type because, after
 * a rollback, a 0.12 worker would refuse a pass of `housekeeping` with a step that it does not know.
 */
export async function cohortHousekeeping(input: CohortHousekeepingInput): Promise<void> {
  const { everyMs = PAUSE.housekeeping.cohorts } = input
  let { after = null } = input
  await repeatPasses('cohorts', everyMs, async () => {
    const pass = await reconcileCohortsPass(after)
    after = pass.after
    return pass.failures
  })
  await continueAsNew<typeof cohortHousekeeping>({ ...input, after })
}

/** Runs passes until the history has grown long. */
async function repeatPasses(
  kind: string,
  everyMs: Parameters<typeof sleep>[0],
  pass: () => Promise<readonly unknown[]>,
): Promise<void> {
  while (!workflowInfo().continueAsNewSuggested) {
    const failures = await pass()
    if (failures.length > 0) {
      const [first] = failures
      emit(workflowLog, 'housekeeping.pass_failed', { kind, failures: failures.length, err: first })
      setCurrentDetails(`${failures.length} steps of the last pass failed: ${String(first)}`)
    }
    await sleep(everyMs)
  }
}
