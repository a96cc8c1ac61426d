import { InferAccepted, InferBody } from '../../../../schemas/inference-task.ts'
import { route } from '../../../http/route.ts'
import { modelStateOf } from '../../../inference/admission.ts'
import { admit, inferRequest, MAX_INFER_BYTES } from '../../../inference/admit.ts'
import { pollNote } from '../../../inference/infer-sync.ts'
import { queueTask } from '../../../inference/queue-task.ts'
import { newDraft } from '../../../inference/rows.ts'
import { InferParams } from './params.ts'

export const inferAsync = route({
  operationId: 'inferAsync',
  summary: 'Queue a request to a model',
  method: 'POST',
  path: '/endpoints/{endpoint_id}/infer:async',
  auth: 'api-key',
  admitsWork: true,
  isHot: true,
  sharesDatabase: true,
  params: InferParams,
  body: InferBody,
  maxBodyBytes: MAX_INFER_BYTES,
  success: { status: 202, schema: InferAccepted },
  errors: ['not_found', 'forbidden', 'conflict', 'task_quota_exceeded', 'no_capacity'],

  async handler(call, services) {
    const draft = newDraft(await admit(services, inferRequest(call)), services.now())
    const model_state = modelStateOf(services, draft)
    await queueTask(services, draft)
    const { taskId } = draft
    return { task_id: taskId, status: 'queued' as const, model_state, note: pollNote(taskId) }
  },
})
