import type { NewInvocation } from '../../db/repositories/tasks/entry.ts'
import { newId } from '../../domain/ids.ts'
import type { Invocation } from '../../schemas/action.ts'
import { type InferResponse, SYNC_TIMEOUT_S } from '../../schemas/inference-task.ts'
import type { AdmittedRequest } from '../inference/admission.ts'
import { admit } from '../inference/admit.ts'
import { inferSync } from '../inference/infer-sync.ts'
import { queueTask } from '../inference/queue-task.ts'
import { newDraft, type TaskDraft } from '../inference/rows.ts'
import type { Services } from '../services.ts'
import type { EndpointAction } from './find-action.ts'
import type { InvocationKey } from './invocation-key.ts'
import type { InvokeRequest } from './invoke-request.ts'
import { invocationNote, invocationStatusOf, isEnded } from './present.ts'

type InvocationDraft = TaskDraft & AdmittedRequest & { invocation: NewInvocation }

/** Invokes an endpoint's model. A synchronous call to a loaded model needs no other service. */
export async function invokeEndpoint(
  services: Services,
  action: EndpointAction,
  invoke: InvokeRequest,
): Promise<Invocation> {
  const { request, body } = invoke
  const { sync = true, sync_timeout_s: seconds = SYNC_TIMEOUT_S.default } = body
  const draft = await draftOf(services, action, invoke)
  if (!sync) {
    await queueTask(services, draft)
    return present(draft, { status: 'queued' }, services.now())
  }
  const { disconnect } = request
  const response = await inferSync(services, draft, { timeoutMs: seconds * 1000, disconnect })
  return present(draft, response, services.now())
}

/** Queues an invocation's task and claims its key in one transaction; returns the invocation's id. */
export async function queueInvocation(
  services: Services,
  action: EndpointAction,
  invoke: InvokeRequest,
  key: InvocationKey,
): Promise<string> {
  const draft = await draftOf(services, action, invoke)
  const { id } = draft.invocation
  await queueTask(services, draft, (trx) => key.take(trx, id))
  return id
}

async function draftOf(
  services: Services,
  { slug, kind }: EndpointAction,
  { request, body, rawBody, surface }: InvokeRequest,
): Promise<InvocationDraft> {
  const { accountId, keyId, limits } = request.caller
  const admitted = await admit(services, {
    accountId,
    keyId,
    limits,
    endpointId: slug,
    body,
    rawBody,
    surface,
    disconnect: request.disconnect,
  })
  return { ...newDraft(admitted, services.now()), invocation: { id: newId(), slug, kind } }
}

function present(
  { taskId, createdAt, invocation: { id, slug, kind } }: InvocationDraft,
  response: Pick<InferResponse, 'status' | 'result' | 'message'>,
  now: Date,
): Invocation {
  const status = invocationStatusOf(response.status)
  const hasEnded = isEnded({ status })
  return {
    invocation_id: id,
    slug,
    kind,
    status,
    task_id: taskId,
    job_id: null,
    result: response.result ?? null,
    error: status === 'failed' ? (response.message ?? null) : null,
    ...(!hasEnded && { note: [response.message, invocationNote(id)].filter(Boolean).join(' ') }),
    created_at: createdAt.toISOString(),
    completed_at: hasEnded ? now.toISOString() : null,
  }
}
