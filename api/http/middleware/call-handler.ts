import type { Services } from '../../services.ts'
import type { Operation } from '../operation.ts'
import { encode, type Outgoing } from '../outgoing.ts'
import { HANDLED, Reply } from '../reply.ts'
import type { Middleware } from './middleware.ts'

/** Calls the route's handler, and makes what it gives ready to send; `respond` sends it. */
export const callHandler =
  (operation: Operation, services: Services): Middleware =>
  async ({ state }) => {
    const { route } = operation
    const result = await route.handler(state as never, services)
    // Of an idempotent route, nothing has been committed yet.
    if (!route.idempotent) state.runAfterCommit()
    state.outgoing = outgoingOf(operation, result)
  }

/** Makes ready to send what a handler gave; nothing when the handler has answered by itself. */
function outgoingOf({ route, conformance }: Operation, result: unknown): Outgoing | undefined {
  if (result === HANDLED) return undefined
  const outgoing =
    result instanceof Reply
      ? encode(result.status, result.body, result.headers)
      : encode(route.success.status, result, undefined)
  conformance?.checkAnswer(outgoing)
  return outgoing
}
