import type { EndpointRow } from '../../../db/tables/models.ts'
import type { ChatApi } from '../servers/chat-api.ts'

/** A limit that a client exceeds quickly, even on a slow machine. */
export const RATE_LIMITED = { HEARTH_RATE_BURST: '40', HEARTH_RATE_LIMIT: '1' }

export const TOOLS = [
  { type: 'function' as const, function: { name: 'look_up', parameters: { type: 'object' } } },
]

const base = { id: 'c', created: 1, model: 'm' }
const base64 = (text: string) => Buffer.from(text).toString('base64')

/** Builds a complete response that calls the tool with `{"q":"x"}`. */
export const wholeToolCall = (): object => {
  const call = { id: 'call_1', type: 'function', function: { name: 'look_up', arguments: '{"q":"x"}' } }
  const message = { role: 'assistant', content: null, tool_calls: [call] }
  const completion = {
    ...base,
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: 'tool_calls' }],
    usage: { prompt_tokens: 9, completion_tokens: 5, total_tokens: 14 },
  }
  return { pieces: [base64(JSON.stringify(completion))], content_type: 'application/json' }
}

/** Builds the same tool call as stream fragments. */
export const streamedToolCall = (): object => {
  const delta = (tool_calls: object[]) => ({
    choices: [{ index: 0, delta: { tool_calls }, finish_reason: null }],
  })
  return streamOf([
    { choices: [{ index: 0, delta: { role: 'assistant', content: null }, finish_reason: null }] },
    delta([{ index: 0, id: 'call_1', type: 'function', function: { name: 'look_up', arguments: '{"q"' } }]),
    delta([{ index: 0, function: { arguments: ':"x"}' } }]),
    { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] },
  ])
}

/** Builds a stream with reasoning, text, two tool calls and usage. */
export const streamOfEverything = (): object => {
  const delta = (fields: object) => ({ choices: [{ index: 0, delta: fields, finish_reason: null }] })
  const call = (index: number, fields: object) => delta({ tool_calls: [{ index, ...fields }] })
  return streamOf([
    delta({ role: 'assistant', content: '' }),
    delta({ reasoning_content: 'Let me ' }),
    delta({ reasoning_content: 'think.' }),
    delta({ content: 'Grüße' }),
    delta({ content: ' 🌍' }),
    call(0, { id: 'call_1', type: 'function', function: { name: 'look_up', arguments: '{"q"' } }),
    call(0, { function: { arguments: ':"x"}' } }),
    call(1, { id: 'call_2', type: 'function', function: { name: 'look_up', arguments: '{}' } }),
    { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] },
    { choices: [], usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 } },
  ])
}

/** Builds a stream with its usage in a last chunk without choices, as `stream_options.include_usage` requires. */
export const streamWithUsage = (): object =>
  streamOf([
    { choices: [{ index: 0, delta: { role: 'assistant', content: 'Grüße' }, finish_reason: null }] },
    { choices: [{ index: 0, delta: { content: ' 🌍' }, finish_reason: null }] },
    { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
    { choices: [], usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 } },
  ])

function streamOf(chunks: object[]): object {
  const events = chunks.map((chunk) => JSON.stringify({ ...base, object: 'chat.completion.chunk', ...chunk }))
  const text = [...events, '[DONE]'].map((data) => `data: ${data}\n\n`).join('')
  return { pieces: [base64(text)] }
}

/**
 * Creates an endpoint whose model isn't loaded on any node. Its recorded load time is short, so a chat waits only
 * about a second for it.
 */
export async function buildColdEndpoint(chat: ChatApi): Promise<EndpointRow> {
  const endpoint = await chat.cold({ name: 'cold' })
  await chat.measured(endpoint, 'cold', 1)
  return endpoint
}
