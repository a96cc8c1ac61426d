import * as invocationRepository from '../../../../db/repositories/actions/invocations.ts'
import { Invocation, InvocationParams } from '../../../../schemas/action.ts'
import { maySeeInvocation } from '../../../actions/limits.ts'
import { presentInvocation } from '../../../actions/present.ts'
import { invocationNotFound } from '../../../actions/read-invocation.ts'
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

  async handler({ caller, params }, { db }) {
    const { accountId } = caller
    const id = params.invocation_id
    const row = await invocationRepository.findInvocation(db, { accountId, id })
    if (!row || !(await maySeeInvocation(db, caller, row))) throw invocationNotFound()
    return presentInvocation(row)
  },
})
