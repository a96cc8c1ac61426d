import { InferBody, InferResponse, SYNC_TIMEOUT_S } from '../../../../schemas/inference-task.ts'
import { route } from '../../../http/route.ts'
import { modelStateOf } from '../../../inference/admission.ts'
import { admit, inferRequest, MAX_INFER_BYTES } from '../../../inference/admit.ts'
import { loadEstimate } from '../../../inference/durable.ts'
import { inferSync, pollNote } from '../../../inference/infer-sync.ts'
import { queueTask } from '../../../inference/queue-task.ts'
import { newDraft } from '../../../inference/rows.ts'
import { InferParams } from './params.ts'

export const infer = route({
  operationId: 'infer',
  summary: 'Call a model; returns a task to poll if the model is not ready in time',
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

  async handler(call, services) {
    const began = performance.now()
    const draft = newDraft(await admit(services, inferRequest(call)), services.now())
    const { sync = true, sync_timeout_s: seconds = SYNC_TIMEOUT_S.default } = call.body
    if (sync) return inferSync(services, draft, { timeoutMs: seconds * 1000, disconnect: call.disconnect })

    const { taskId } = draft
    const state = modelStateOf(services, draft)
    await queueTask(services, draft)
    const estimate = await loadEstimate(services, draft.endpoint.model_key, state)
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
