import { Invocation, InvocationParams } from '../../../../schemas/action.ts'
import { findVisibleInvocation } from '../../../actions/read-invocation.ts'
import { route } from '../../../http/route.ts'

export const getInvocation = route({
  operationId: 'getInvocation',
  summary: 'Get an invocation of an action',
  method: 'GET',
  path: '/invocations/{invocation_id}',
  auth: 'api-key',
  forLimitedKeys: true,
  params: InvocationParams,
  success: { status: 200, schema: Invocation },
  errors: ['not_found'],

  handler: ({ caller, params, signal, res, surface }, services) =>
    findVisibleInvocation(services, caller, params.invocation_id, { signal, res, surface }),
})
