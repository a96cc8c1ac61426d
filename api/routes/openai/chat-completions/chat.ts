import type { CallableEndpointRow } from '../../../../db/repositories/endpoints/callable.ts'
import { CHAT_PATH, SERVED_MODEL, takesModelName } from '../../../../domain/chat/chat.ts'
import { ApiError, type Issue } from '../../../../domain/errors.ts'
import { faultField, faultWithMemory, modelFault } from '../../../../domain/models/answer.ts'
import { memberFinder, type Place, replaceAt } from '../../../../platform/json-bytes.ts'
import type { LinkRequest } from '../../../gateway/links/link-request.ts'
import type { ClientDisconnect } from '../../../http/client-disconnect.ts'
import type { TaskDraft } from '../../../inference/rows.ts'
import type { RequestMemory } from '../../../memory/memory.ts'

/** An admitted chat: its endpoint, and the client's bytes. */
export interface Chat {
  readonly endpoint: CallableEndpointRow
  readonly draft: TaskDraft
  readonly body: Buffer
  /** The position of the model's name in these bytes. */
  readonly modelPlace: Place
  /** The memory that the chat's key may read. */
  readonly memory: RequestMemory | undefined
  /** Reports that the client has left before its response is complete. */
  readonly disconnect: ClientDisconnect
}

const DEADLINE_MS = 60 * 60 * 1000
const SERVED_NAME = Buffer.from(JSON.stringify(SERVED_MODEL))

/** Finds the model's name in a chat's bytes. */
export const modelIn = memberFinder('model')

/** Returns the chat as it goes to a node: with the memory that its key may read now. */
export async function remembering(chat: Chat, memory: RequestMemory): Promise<Chat> {
  const body = await memory.addTo(chat.body)
  const modelPlace = body === chat.body ? chat.modelPlace : modelIn(body)
  return modelPlace ? { ...chat, body, modelPlace } : chat
}

/** Returns the bytes for a node of this version: unchanged, unless its model servers accept only one model name. */
export const bytesFor = ({ body, modelPlace }: Chat, version: string): Buffer =>
  takesModelName(version) ? body : replaceAt(body, modelPlace, SERVED_NAME)

export const linkRequest = ({ endpoint, disconnect, draft }: Chat, body: Buffer): LinkRequest => ({
  accountId: draft.accountId,
  modelKey: endpoint.model_key,
  path: CHAT_PATH,
  body,
  deadlineMs: DEADLINE_MS,
  signal: disconnect,
})

/**
 * Converts an error response of a model server: its own message and field, under a status that clients know. The message
 * is stored with the task, so it does not quote the response to a request with memory.
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

/** The header with the id of the task that a chat becomes. */
export const TASK_HEADER = 'x-hearth-task-id'

/** Adds the id of the failed task to an error, for its investigation. */
export const naming = ({ draft }: Chat, { code, message, details, cause, headers }: ApiError): ApiError =>
  new ApiError(code, message, { details, cause, headers: { ...headers, [TASK_HEADER]: draft.taskId } })
