import type { Services } from '../../services.ts'
import type { Operation } from '../operation.ts'
import { encode, type Outgoing } from '../outgoing.ts'
import { HANDLED, Reply } from '../reply.ts'
import type { Middleware } from './middleware.ts'

/** Calls the route's handler and encodes its result; `respond` sends it. */
export const callHandler =
  (operation: Operation, services: Services): Middleware =>
  async ({ state }) => {
    const { route } = operation
    const result = await route.handler(state as never, services)
    // On an idempotent route, the transaction hasn't committed yet.
    if (!route.idempotent) state.runAfterCommit()
    state.outgoing = outgoingOf(operation, result)
  }

/** Encodes a handler's result; undefined if the handler has responded itself. */
function outgoingOf({ route, conformance }: Operation, result: unknown): Outgoing | undefined {
  if (result === HANDLED) return undefined
  const outgoing =
    result instanceof Reply
      ? encode(result.status, result.body, result.headers)
      : encode(route.success.status, result, undefined)
  conformance?.checkAnswer(outgoing)
  return outgoing
}
