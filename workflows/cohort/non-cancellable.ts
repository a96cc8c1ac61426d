import { CancellationScope, condition, patched } from '@temporalio/workflow'

let areInTurn = false
let inFlight = 0
let last: Promise<unknown> = Promise.resolve()

/**
 * Makes this execution run its local activities one at a time. The SDK resumes a workflow once per result, but during a
 * replay only once for all results of a workflow task. Conditions would then be evaluated at other points, and commands
 * would come in a different order (TMPRL1100) or results reach the wrong stage. Call this before the first await;
 * executions that earlier versions started keep running their local activities concurrently.
 */
export function runInTurn(): void {
  areInTurn = patched('local-activities-in-turn')
}

/**
 * Works around TMPRL1100: waits for a local activity even if its scope is cancelled in the meantime; the step after it
 * ends instead. The SDK's state machine can't handle a cancellation that arrives together with the result, for example
 * when several stages fail at once. The workflow task then fails as nondeterministic, repeatedly, until the results
 * arrive in a different order.
 */
export const nonCancellable =
  <A extends unknown[], R>(work: (...args: A) => Promise<R>) =>
  (...args: A): Promise<R> =>
    CancellationScope.nonCancellable(async () => {
      inFlight += 1
      const result = areInTurn ? last.then(() => work(...args)) : work(...args)
      last = result.catch(() => undefined)
      try {
        return await result
      } finally {
        inFlight -= 1
      }
    })

/**
 * Waits until no local activity is in flight. The server rejects a workflow task in which results of local activities
 * follow the end of the workflow, and its retry may hit the same problem.
 */
export const noneInFlight = (): Promise<void> =>
  CancellationScope.nonCancellable(() => condition(() => inFlight === 0))
