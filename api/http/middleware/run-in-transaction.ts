import type { Transaction } from 'kysely'
import type { Database } from '../../../db/tables.ts'
import type { Services } from '../../services.ts'
import { type Idempotency, keyOf } from '../idempotency.ts'
import { passKillSwitch, passKillSwitchIn } from '../kill-switch-gate.ts'
import type { Outgoing } from '../outgoing.ts'
import type { AnyRoute } from '../route.ts'
import type { Middleware } from './middleware.ts'

/**
 * Runs the handler of an idempotent route in a transaction, together with the key and the stored reply. A request with
 * a known key gets the stored reply, and its handler is not called.
 */
export function runInTransaction(route: AnyRoute, services: Services, idempotency: Idempotency): Middleware {
  const { db, outbox, killSwitch } = services

  return async ({ state }, next) => {
    const admit = async () => {
      if (route.admitsWork) await passKillSwitch(killSwitch)
      await route.prepare?.(state, services)
    }
    const work = async (trx: Transaction<Database>): Promise<Outgoing> => {
      state.trx = trx
      await next()
      if (route.admitsWork) await passKillSwitchIn(trx)
      if (!state.outgoing) throw new Error(`${route.operationId} is idempotent: it has to return its answer`)
      return state.outgoing
    }

    const keyed = keyOf(route, state)
    if (!keyed) await admit()
    state.outgoing = keyed ? await idempotency.run(keyed, admit, work) : await db.transaction().execute(work)
    state.runAfterCommit()
    outbox.poke()
  }
}
