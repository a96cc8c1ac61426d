/** A function call made by a model. */
export interface FunctionCall {
  id: string
  name: string
  arguments: string
}

export type ItemStatus = 'in_progress' | 'completed' | 'incomplete'

/** Output items of a response, as in OpenAI's API reference. */
export const reasoningItem = (id: string, text: string): object => ({
  id,
  type: 'reasoning',
  summary: [],
  content: text === '' ? [] : [reasoningPart(text)],
})

export const reasoningPart = (text: string): object => ({ type: 'reasoning_text', text })

export const messageItem = (id: string, status: ItemStatus, text: string | undefined): object => ({
  id,
  type: 'message',
  role: 'assistant',
  status,
  content: text === undefined ? [] : [textPart(text)],
})

export const textPart = (text: string): object => ({
  type: 'output_text',
  text,
  annotations: [],
  logprobs: [],
})

export const callItem = (id: string, status: ItemStatus, call: FunctionCall): object => ({
  id,
  type: 'function_call',
  status,
  call_id: call.id,
  name: call.name,
  arguments: call.arguments,
})

interface ChatUsage {
  prompt_tokens?: number
  completion_tokens?: number
  total_tokens?: number
}

/** Converts a chat's usage to a response's; zero when the model server reports none. */
export function usageOf({ prompt_tokens = 0, completion_tokens = 0, total_tokens }: ChatUsage = {}): object {
  return {
    input_tokens: prompt_tokens,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: completion_tokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: total_tokens ?? prompt_tokens + completion_tokens,
  }
}

/** Returns why a response is incomplete, from the `finish_reason` of its chat; null for a complete one. */
export function incompleteBy(finishReason: unknown): { reason: string } | null {
  if (finishReason === 'length') return { reason: 'max_output_tokens' }
  return finishReason === 'content_filter' ? { reason: 'content_filter' } : null
}
