import type { Transaction } from 'kysely'
import { retryTransaction } from '../../../db/retry-transaction.ts'
import type { Database } from '../../../db/tables.ts'
import type { Services } from '../../services.ts'
import { type Idempotency, keyOf } from '../idempotency.ts'
import { passKillSwitch, passKillSwitchIn } from '../kill-switch-gate.ts'
import type { Operation } from '../operation.ts'
import type { Outgoing } from '../outgoing.ts'
import { callHandler } from './call-handler.ts'
import type { Middleware } from './middleware.ts'

/**
 * Runs the handler of an idempotent route in a transaction, together with the key and the stored reply. A request with
 * a known key gets the stored reply without a call to its handler. After a deadlock the handler runs again, so this
 * must be the last middleware: a composed middleware can call `next` only once.
 */
export function runInTransaction(
  operation: Operation,
  services: Services,
  idempotency: Idempotency,
): Middleware {
  const { route } = operation
  const { db, outbox, killSwitch } = services
  const call = callHandler(operation, services)

  return async (ctx) => {
    const { state } = ctx
    using prepared = new DisposableStack()
    const admit = async () => {
      if (route.admitsWork) await passKillSwitch(killSwitch)
      prepared.use(await route.prepare?.(state, services))
    }
    const work = async (trx: Transaction<Database>): Promise<Outgoing> => {
      state.trx = trx
      state.dropAfterCommit()
      await call(ctx, async () => {})
      if (route.admitsWork) await passKillSwitchIn(trx)
      if (!state.outgoing)
        throw new Error(`${route.operationId} is idempotent, so its handler must return its response`)
      return state.outgoing
    }

    const keyed = keyOf(route, state)
    if (!keyed) await admit()
    state.outgoing = await (keyed ? idempotency.run(keyed, admit, work) : retryTransaction(db, work))
    state.runAfterCommit()
    outbox.poke()
  }
}
