import { CancellationScope, condition } from '@temporalio/workflow'

let inFlight = 0
let last: Promise<unknown> = Promise.resolve()

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
      const before = last
      const own = work(...args)
      last = own.then(
        () => before,
        () => before,
      )
      try {
        const result = await own
        // A replay returns the results in the order of the calls, whatever order they came in.
        await before
        return result
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
