import type { Static } from 'typebox'
import { isChatCapable } from '../../../../domain/chat/chat.ts'
import { newId } from '../../../../domain/ids.ts'
import { memberBytes } from '../../../../platform/json-bytes.ts'
import { InferBody, InferResponse, SYNC_TIMEOUT_S } from '../../../../schemas/inference-task.ts'
import { route } from '../../../http/route.ts'
import { type Admitted, callableEndpoint, modelStateOf } from '../../../inference/admission.ts'
import { chatInput } from '../../../inference/chat-input.ts'
import { loadEstimate, queueTask } from '../../../inference/durable.ts'
import { inferSync, pollNote } from '../../../inference/infer-sync.ts'
import type { Services } from '../../../services.ts'
import { InferParams } from './params.ts'

export const MAX_INFER_BYTES = 16 * 1024 * 1024

/** Checks a request against its endpoint before anything is written or sent to a node. */
export async function admit(
  services: Services,
  request: { accountId: string; endpointId: string; body: Static<typeof InferBody>; rawBody: Buffer },
): Promise<Admitted> {
  const { accountId, endpointId, body, rawBody } = request
  const endpoint = await callableEndpoint(services, accountId, endpointId)
  const input = memberBytes(rawBody, 'input') ?? Buffer.from(JSON.stringify(body.input))
  const checking = services.inputChecks.check(endpoint, accountId, { value: body.input, json: input })
  if (checking) await checking
  const surface = 'rest'
  if (!isChatCapable(endpoint.task_type)) return { endpoint, accountId, input, surface }
  return { endpoint, accountId, input: chatInput(body, input), surface }
}

export const infer = route({
  operationId: 'infer',
  summary: 'Ask a model; a model that is not ready in time answers with a task to poll',
  method: 'POST',
  path: '/endpoints/{endpoint_id}/infer',
  auth: 'api-key',
  admitsWork: true,
  isHot: true,
  params: InferParams,
  body: InferBody,
  maxBodyBytes: MAX_INFER_BYTES,
  success: { status: 200, schema: InferResponse },
  errors: ['not_found', 'forbidden', 'conflict', 'task_quota_exceeded', 'no_capacity', 'unavailable'],

  async handler({ caller, params, body, rawBody, disconnect }, services) {
    const { accountId } = caller
    const began = performance.now()
    const admitted = await admit(services, { accountId, endpointId: params.endpoint_id, body, rawBody })
    const { sync = true, sync_timeout_s: seconds = SYNC_TIMEOUT_S.default } = body
    if (sync) {
      const { signal } = disconnect
      const whenOver = (listener: () => void) => disconnect.whenOver(listener)
      return inferSync(services, admitted, { timeoutMs: seconds * 1000, signal, whenOver })
    }

    const taskId = newId()
    const state = modelStateOf(services, admitted)
    await queueTask(services, { ...admitted, taskId, createdAt: services.now() })
    const estimate = await loadEstimate(services, admitted.endpoint.model_key, state)
    return {
      task_id: taskId,
      status: 'queued' as const,
      model_state: state,
      sync_latency_ms: Math.round((performance.now() - began) * 100) / 100,
      ...estimate,
      note: pollNote(taskId),
    }
  },
})
