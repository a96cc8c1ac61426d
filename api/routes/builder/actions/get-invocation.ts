import * as invocationRepository from '../../../../db/repositories/actions/invocations.ts'
import { Invocation, InvocationParams } from '../../../../schemas/action.ts'
import { findVisibleInvocation } from '../../../actions/read-invocation.ts'
import { route } from '../../../http/route.ts'
import { inTurnOfResult } from '../../../inference/long-results.ts'

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

  async handler({ caller, params, signal, res, surface }, services) {
    const { accountId } = caller
    const id = params.invocation_id
    const bytes = await invocationRepository.resultBytes(services.db, { id, accountId })
    return inTurnOfResult(services.longAnswers, { accountId, bytes, signal, res, surface }, () =>
      findVisibleInvocation(services, caller, id),
    )
  },
})
