import {
  isCancellation,
  patched,
  proxyLocalActivities,
  setCurrentDetails,
  workflowInfo,
} from '@temporalio/workflow'
import type { ControlActivities } from '../activities/control/index.ts'
import { LOCAL } from './contract/policy.ts'

const {
  endOverdueWork,
  foldUsageCounts,
  noteWaitingJobs,
  reconcileCandidates,
  reconcileCohorts,
  reconcileDeliveries,
  reconcileJobs,
  reconcileTasks,
  remindKillSwitch,
  restartStalledIngests,
  tidyLeases,
} = proxyLocalActivities<ControlActivities>(LOCAL.sweep)

/** The maximum number of steps of one kind per pass; the rest wait for the next pass. */
const MAX_STEPS = 10

/**
 * The state that one pass hands to the next: the positions at which it stopped, and the version of the kill switch that
 * it signaled.
 */
export interface ReconcileState {
  jobs: string | null
  tasks: string | null
  deliveries: string | null
  candidates?: string | null
  waiting?: string | null
  /** The version of the kill switch that its workflow was last signaled with. */
  killSwitch: number | null
}

const NOTHING_YET: ReconcileState = { jobs: null, tasks: null, deliveries: null, killSwitch: null }

/** Runs a single pass, for schedules created by earlier versions; fails if any step failed. */
export async function reconcile(): Promise<ReconcileState> {
  const last = workflowInfo().lastResult as ReconcileState | undefined
  const looks = { atCandidates: () => patched('candidate-tests'), atWaitingJobs: false }
  const { state, failures } = await reconcilePass(last, looks)
  if (failures.length > 0) throw failures[0]
  return state
}

/**
 * Reconciles every open row with its workflow. If one step fails, the others still run; its error is returned along
 * with the results.
 */
export async function reconcilePass(
  last: ReconcileState | undefined,
  looks = { atCandidates: () => true, atWaitingJobs: true },
): Promise<{ state: ReconcileState; failures: readonly unknown[] }> {
  const state = { ...NOTHING_YET, ...last }
  const done = { ended: 0, restarted: 0, folded: 0 }
  const { failures, step } = stepsOfPass()
  for (const [kind, reconcileOne] of [
    ['jobs', reconcileJobs],
    ['tasks', reconcileTasks],
  ] as const) {
    await step(async () => {
      for (let steps = 0; steps < MAX_STEPS; steps++) {
        const swept = await reconcileOne(state[kind])
        done.ended += swept.ended
        done.restarted += swept.restarted
        state[kind] = swept.next
        if (swept.next === null) break
      }
    })
  }
  // Only one step per pass, because many deliveries may wait for a day and each step queries Temporal once.
  await step(async () => {
    const swept = await reconcileDeliveries(state.deliveries)
    done.ended += swept.ended
    done.restarted += swept.restarted
    state.deliveries = swept.next
  })
  if (looks.atCandidates()) {
    await step(async () => {
      const swept = await reconcileCandidates(state.candidates ?? null)
      done.ended += swept.ended
      done.restarted += swept.restarted
      state.candidates = swept.next
    })
  }
  if (looks.atWaitingJobs) {
    await step(async () => {
      state.waiting = (await noteWaitingJobs(state.waiting ?? null)).next
    })
  }
  await step(async () => {
    done.restarted += (await restartStalledIngests()).count
  })
  await step(tidyLeases)
  await step(async () => {
    state.killSwitch = await remindKillSwitch(state.killSwitch)
  })
  await step(async () => {
    for (let steps = 0, more = true; more && steps < MAX_STEPS; steps++) {
      const folded = await foldUsageCounts()
      done.folded += folded.count
      more = folded.more
    }
  })

  setCurrentDetails(
    `Ended ${done.ended} and restarted ${done.restarted} pieces of work without a workflow; added up ${done.folded} usage counts.`,
  )
  return { state, failures }
}

/**
 * Ends overdue work of cohorts, first because callers notice it, and then reconciles the cohorts after `after` with
 * their workflows.
 */
export async function reconcileCohortsPass(
  after: string | null,
): Promise<{ after: string | null; failures: readonly unknown[] }> {
  const { failures, step } = stepsOfPass()
  await step(endOverdueWork)
  await step(async () => {
    const { ended, restarted, next } = await reconcileCohorts(after)
    after = next
    setCurrentDetails(`Ended ${ended} and restarted ${restarted} cohorts without a workflow.`)
  })
  return { after, failures }
}

/** Runs the steps of a pass; if one fails, the others still run. */
function stepsOfPass() {
  const failures: unknown[] = []
  const step = async (run: () => Promise<unknown>) => {
    try {
      await run()
    } catch (err) {
      if (isCancellation(err)) throw err
      failures.push(err)
    }
  }
  return { failures, step }
}
