import { ActionParams, Invocation, InvokeBody, InvokeHeaders } from '../../../../schemas/action.ts'
import { invokeAction as invoke } from '../../../actions/invoke.ts'
import { isEnded } from '../../../actions/present.ts'
import { reply } from '../../../http/reply.ts'
import { route } from '../../../http/route.ts'
import { MAX_INFER_BYTES } from '../../../inference/admit.ts'

export const invokeAction = route({
  operationId: 'invokeAction',
  summary: 'Invoke an action; returns 202 with an invocation to poll if it is not done in time',
  method: 'POST',
  path: '/actions/{slug}:invoke',
  isHot: true,
  auth: 'api-key',
  forLimitedKeys: true,
  params: ActionParams,
  headers: InvokeHeaders,
  body: InvokeBody,
  maxBodyBytes: MAX_INFER_BYTES,
  success: { status: 200, schema: Invocation },
  also: { 202: Invocation },
  errors: [
    'not_found',
    'forbidden',
    'conflict',
    'idempotency_key_reused',
    'task_quota_exceeded',
    'training_quota_exceeded',
    'operator_kill_switch',
    'no_capacity',
    'unavailable',
  ],

  async handler(request, services) {
    const { params, headers, body, rawBody } = request
    const { invocation, isReplay } = await invoke(services, {
      slug: params.slug,
      request,
      body,
      rawBody,
      surface: 'action',
      idempotencyKey: headers['idempotency-key'],
    })
    const replayed = isReplay ? { 'idempotency-replayed': 'true' } : undefined
    return reply(isEnded(invocation) ? 200 : 202, invocation, replayed)
  },
})
