import type { CallableEndpointRow } from '../../../../db/repositories/endpoints/callable.ts'
import { ApiError, invalid, type Issue } from '../../../../domain/errors.ts'
import { newId } from '../../../../domain/ids.ts'
import { faultField, faultWithMemory, modelFault } from '../../../../domain/models/answer.ts'
import { tierOf } from '../../../../domain/service-tier.ts'
import { memberFinder, type ValueSpan } from '../../../../platform/json-bytes.ts'
import type { LinkRequest } from '../../../gateway/links/link-request.ts'
import type { AccountCaller } from '../../../http/caller.ts'
import type { ClientDisconnect } from '../../../http/connections/client-disconnect.ts'
import type { TaskDraft } from '../../../inference/rows.ts'
import type { RequestMemory } from '../../../memory/memory.ts'
import type { Services } from '../../../services.ts'

/** An admitted request to a model over the OpenAI surface, which becomes a task once a node has accepted it. */
export interface ModelCall {
  readonly endpoint: CallableEndpointRow
  readonly draft: TaskDraft
  /** The path on the model server. */
  readonly path: string
  /** The JSON text for the model server: the client's own text if both use the same format. */
  readonly body: Buffer
  /** The memory that the caller's key may read; only language models get memory. */
  readonly memory: RequestMemory | undefined
  /** Reports that the client disconnected before its response was complete. */
  readonly disconnect: ClientDisconnect
  /** Returns the key that determines which of several nodes a chat prefers. */
  readonly affinity?: (() => string) | undefined
}

/** The part of a call that its route knows once the endpoint is found. */
type ResolvedCall = Pick<ModelCall, 'endpoint' | 'path' | 'body' | 'disconnect' | 'affinity'> & {
  caller: AccountCaller
  /** The `service_tier` of the body. */
  serviceTier?: unknown
}

/**
 * Admits a call to an endpoint. Throws a 422 for a body that names its model twice, and `no_capacity` while too many
 * results are waiting to be recorded.
 */
export function admitCall(
  services: Pick<Services, 'journal' | 'keyMeters' | 'memory' | 'now'>,
  { caller: { accountId, keyId, limits }, serviceTier, ...found }: ResolvedCall,
): ModelCall & { modelPlace: ValueSpan } {
  const modelPlace = modelIn(found.body)
  // Parsers differ in whether the first or the last of two members counts.
  if (!modelPlace) throw invalid(['body', 'model'], 'is given twice')
  services.journal.admit()
  const budgetHold = limits && services.keyMeters.admit({ keyId, limits }, found.endpoint)
  if (budgetHold) found.disconnect.whenOver(() => budgetHold.release())
  const draft: TaskDraft = {
    endpoint: found.endpoint,
    accountId,
    keyId,
    tier: tierOf(serviceTier, limits?.service_tier),
    surface: 'openai',
    input: null,
    taskId: newId(),
    createdAt: services.now(),
    ...(budgetHold && { budgetHold }),
  }
  return { ...found, draft, modelPlace, memory: services.memory.forRequest(draft) }
}

/** Finds the name of the model in the bytes of a call. */
export const modelIn = memberFinder('model')

const INFERENCE_TIMEOUT_MS = 60 * 60 * 1000

export const linkRequest = ({ endpoint, disconnect, draft, path }: ModelCall, body: Buffer): LinkRequest => ({
  accountId: draft.accountId,
  modelKey: endpoint.model_key,
  path,
  body,
  deadlineMs: INFERENCE_TIMEOUT_MS,
  signal: disconnect,
})

/**
 * Converts a model server's error response: keeps its message and field, under a status that clients know. The message
 * is stored with the task, so it must not quote the response to a request with memory.
 */
export function refusalOf(status: number, body: Buffer, memory: RequestMemory | undefined): ApiError {
  const hasMemory = memory?.isGiven ?? false
  const text = hasMemory ? '' : body.toString()
  const message = hasMemory ? faultWithMemory(status) : modelFault(status, text)
  if (status === 429 || status === 503) {
    return new ApiError('no_capacity', message, { headers: { 'retry-after': '1' } })
  }
  const field = faultField(text)
  const issue = { loc: ['body', field ?? ''], msg: message, type: 'value_error' } satisfies Issue
  const options = field === undefined ? {} : { details: { issues: [issue] } }
  if (status === 422) return new ApiError('validation_failed', message, options)
  if (status === 413) return new ApiError('payload_too_large', message)
  return new ApiError(status >= 400 && status < 500 ? 'bad_request' : 'internal', message, options)
}

/** The header with the id of the task that a call becomes. */
export const TASK_HEADER = 'x-hearth-task-id'

/** The errors that a call may have in addition to those of its route's schemas and authentication. */
export const CALL_ERRORS = [
  'not_found',
  'forbidden',
  'conflict',
  'model_cold',
  'no_capacity',
  'unavailable',
] as const

/** The size limit of a file in a call, the same as in OpenAI's API. */
export const FILE_LIMIT = { maxBytes: 25 * 1024 * 1024 }

/** Adds the id of the failed task to an error, for debugging. */
export const naming = (
  { draft }: ModelCall,
  { code, message, details, cause, headers }: ApiError,
): ApiError =>
  new ApiError(code, message, { details, cause, headers: { ...headers, [TASK_HEADER]: draft.taskId } })
