import { Invocation, InvocationParams } from '../../../../schemas/action.ts'
import { readInvocation } from '../../../actions/read-invocation.ts'
import { route } from '../../../http/route.ts'

export const getInvocation = route({
  operationId: 'getInvocation',
  summary: 'Get an invocation of an action',
  method: 'GET',
  path: '/invocations/{invocation_id}',
  auth: 'api-key',
  params: InvocationParams,
  success: { status: 200, schema: Invocation },
  errors: ['not_found'],

  handler: ({ caller: { accountId }, params }, services) =>
    readInvocation(services, { accountId, id: params.invocation_id }),
})
