import { CancellationScope, condition, patched } from '@temporalio/workflow'

let areInTurn = false
let inFlight = 0
let last: Promise<unknown> = Promise.resolve()

/**
 * Has the local activities of this execution run one at a time. The SDK resumes a workflow once for each result, but in a
 * replay once for all results of a workflow task, so conditions would be evaluated between other steps than before, and
 * commands would come in another order (TMPRL1100) or results reach the wrong stage. Call it before the first await:
 * executions that earlier versions began continue to run them side by side.
 */
export function runInTurn(): void {
  areInTurn = patched('local-activities-in-turn')
}

/**
 * Has a local activity waited for also where its scope is cancelled meanwhile; the step after it ends then. The SDK's state
 * machine knows no way on for one whose cancellation meets its result, as where stages fail at one time: the workflow task
 * fails as not deterministic (TMPRL1100), again and again, until the results come in another order.
 */
export const waitedFor =
  <A extends unknown[], R>(work: (...args: A) => Promise<R>) =>
  (...args: A): Promise<R> =>
    CancellationScope.nonCancellable(async () => {
      inFlight += 1
      const own = areInTurn ? last.then(() => work(...args)) : work(...args)
      last = own.catch(() => undefined)
      try {
        return await own
      } finally {
        inFlight -= 1
      }
    })

/**
 * Waits until no local activity is at work. The server refuses a workflow task whose results of local activities follow
 * the end of the workflow, and the next one may run into the same.
 */
export const noneInFlight = (): Promise<void> =>
  CancellationScope.nonCancellable(() => condition(() => inFlight === 0))
