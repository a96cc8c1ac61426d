import type { Static } from 'typebox'
import type { ActionDetail, ActionList, ActionQuery, Invocation, InvokeBody } from '../../schemas/action.ts'
import type { Operations } from '../operations.ts'
import { waitFor, type WaitOptions } from '../wait.ts'

/** Actions and their invocations. */
export function actions(on: Operations) {
  const getInvocation = on.call<[invocation_id: string], Invocation>({
    id: 'getInvocation',
    method: 'GET',
    path: '/invocations/{invocation_id}',
  })
  return {
    list: on.list<[], ActionQuery, Static<typeof ActionList>, 'actions'>({
      id: 'listActions',
      method: 'GET',
      path: '/actions',
      items: 'actions',
    }),
    get: on.call<[slug: string], ActionDetail>({
      id: 'getAction',
      method: 'GET',
      path: '/actions/{slug}',
    }),
    /** The work continues when the call is aborted, unless `idempotencyKey` is false. */
    invoke: on.send<[slug: string], InvokeBody, Invocation>({
      id: 'invokeAction',
      method: 'POST',
      path: '/actions/{slug}:invoke',
      idempotent: true,
    }),
    getInvocation,
    /** Waits until the invocation has completed or failed, and returns it. */
    wait: (invocationId: string, options: WaitOptions<Invocation> = {}): Promise<Invocation> =>
      waitFor(
        () => getInvocation(invocationId, { signal: options.signal }),
        ({ status }) => status === 'completed' || status === 'failed',
        options,
      ),
  }
}
