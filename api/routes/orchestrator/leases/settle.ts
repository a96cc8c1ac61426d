import { workOf } from './kinds.ts'
import type { LeaseStep } from './work.ts'

/**
 * Runs the step that ends a lease in one transaction, with the row behind the lease locked before the lease itself.
 * Actions that the step defers run once the transaction has committed, and never if it is rolled back.
 */
export async function settleLease<B, R>(
  { lease, body, services, afterCommit }: Omit<LeaseStep<B>, 'trx' | 'locked'>,
  step: (step: LeaseStep<B>) => Promise<R>,
): Promise<R> {
  const actions: (() => void)[] = []
  const result = await services.db.transaction().execute(async (trx) => {
    const locked = await workOf(lease).lock(trx, lease)
    return step({ trx, locked, lease, body, services, afterCommit: (action) => actions.push(action) })
  })
  for (const action of actions) afterCommit(action)
  return result
}
