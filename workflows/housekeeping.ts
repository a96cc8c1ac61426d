import { continueAsNew, setCurrentDetails, sleep, workflowInfo } from '@temporalio/workflow'
import { PAUSE } from './contract/policy.ts'
import { emit, workflowLog } from './events.ts'
import { reconcilePass, type ReconcileState } from './reconcile.ts'
import { retentionPass } from './retention.ts'

export interface HousekeepingInput {
  kind: 'reconcile' | 'retention'
  /** What the last pass of the run before has handed on. */
  state?: ReconcileState
  /** The pause between two passes, where it is not that of the policy. */
  everyMs?: number
}

/**
 * Two of these, which never end: one gives every open row an owner again, the other removes what has outlived its time. Passes
 * follow each other in one execution, so that what operators look for is not lost among them; a pass that fails is told in the
 * execution's details and in the log, and the next one comes all the same.
 */
export async function housekeeping(input: HousekeepingInput): Promise<void> {
  const { kind, everyMs = PAUSE.housekeeping[kind] } = input
  let known = input.state
  while (!workflowInfo().continueAsNewSuggested) {
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
    const pass = await reconcilePass(known)
    known = pass.state
    return pass.failures
  }
}
