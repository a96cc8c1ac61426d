import { tokensIn } from '../../../../domain/chat/chat.ts'
import { ApiError } from '../../../../domain/errors.ts'
import { spliceMembers } from '../../../../platform/json-bytes.ts'
import type { NodeResponse } from '../../../gateway/links/buffered-response.ts'
import type { RequestMemory } from '../../../memory/memory.ts'
import { objectIn, seemsWhole } from '../calls/answer-text.ts'
import { refusalOf } from '../calls/model-call.ts'
import type { ClientResponse } from '../calls/respond-buffered.ts'

const NO_USAGE = '{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}'

/** Returns the response for the client: the model server's bytes, with a usage of zero if the server reports none. */
export function readAnswer(
  { head, body, room }: NodeResponse,
  memory: RequestMemory | undefined,
): ClientResponse | ApiError {
  const { status, tokens } = head
  if (status !== 200) return refusalOf(status, body, memory)
  if (tokens !== undefined && seemsWhole(body)) return { body, tokens }
  room.holdValues(body)
  const value = objectIn(body)
  if (!value) return new ApiError('internal', 'the model did not return a JSON object')
  const isCounted = typeof value.usage === 'object' && value.usage !== null
  return { body: isCounted ? body : spliceMembers(body, { usage: NO_USAGE }), tokens: tokensIn(value) }
}
