import { Invocation, InvocationParams } from '../../../../schemas/action.ts'
import { requireAllowed } from '../../../actions/limits.ts'
import { readInvocation } from '../../../actions/read-invocation.ts'
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

  async handler({ caller, params }, services) {
    const { accountId } = caller
    const invocation = await readInvocation(services, { accountId, id: params.invocation_id })
    await requireAllowed(services, caller, invocation.slug)
    return invocation
  },
})
