import { SERVED_MODEL } from '../../domain/chat/chat.ts'
import { checkChatLimits } from '../../domain/chat/limits.ts'
import { checkMessages } from '../../domain/chat/messages.ts'
import { invalid } from '../../domain/errors.ts'
import { memberBytes, spliceMembers } from '../../platform/json-bytes.ts'
import type { InferBody } from '../../schemas/inference-task.ts'

const INPUT = ['body', 'input']

type Overrides = Pick<InferBody, 'max_tokens' | 'temperature'>

/**
 * Builds the request to a language model for an `infer`: the input as sent, but limits in the body replace those in the
 * input, whichever name they use. Never streams.
 */
export function chatInput({ input, ...overrides }: Overrides & { input: object }, bytes: Buffer): Buffer {
  const { messages } = input as { messages?: unknown }
  const loc = [...INPUT, 'messages']
  if (messages === undefined) throw invalid(loc, 'Field required', 'missing')
  if (!Array.isArray(messages) || messages.length === 0)
    throw invalid(loc, 'must be a list with at least one message')
  checkChatLimits(input, INPUT)
  checkMessages(messages, loc)
  const { max_tokens, temperature } = overrides
  return spliceMembers(bytes, {
    model: JSON.stringify(SERVED_MODEL),
    ...(memberBytes(bytes, 'stream') && { stream: 'false' }),
    ...(memberBytes(bytes, 'stream_options') && { stream_options: 'null' }),
    ...(max_tokens !== undefined && { max_tokens: String(max_tokens) }),
    // If a request uses both names for the limit, model servers use this one.
    ...(max_tokens !== undefined &&
      memberBytes(bytes, 'max_completion_tokens') && { max_completion_tokens: String(max_tokens) }),
    ...(temperature !== undefined && { temperature: String(temperature) }),
  })
}
