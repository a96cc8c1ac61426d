import { CancellationScope } from '@temporalio/workflow'

/**
 * Has a local activity waited for also where its scope is cancelled meanwhile; the step after it ends then. The SDK's state
 * machine knows no way on for one whose cancellation meets its result, as where stages fail at one time: the workflow task
 * fails as not deterministic (TMPRL1100), again and again, until the results come in another order.
 */
export const waitedFor =
  <A extends unknown[], R>(work: (...args: A) => Promise<R>) =>
  (...args: A): Promise<R> =>
    CancellationScope.nonCancellable(() => work(...args))
