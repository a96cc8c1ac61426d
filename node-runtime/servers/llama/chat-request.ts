import type { FunctionCallItem, HistoryItem } from './binding.ts'

/** The request cannot be answered as it is; the text is for the caller. */
export class UnusableError extends Error {
  override readonly name = 'UnusableError'
}

interface ToolCall {
  id?: string
  function?: { name?: string; arguments?: string }
}

interface Message {
  role?: string
  content?: unknown
  tool_calls?: ToolCall[]
  tool_call_id?: string
}

interface Tool {
  function?: { name?: string; description?: string; parameters?: unknown }
}

/** The fields of OpenAI's chat completions that a model here understands; others are ignored. */
export interface ChatBody {
  messages?: unknown
  tools?: unknown
  tool_choice?: unknown
  stream?: boolean
  stream_options?: { include_usage?: boolean } | null
  max_tokens?: number | null
  max_completion_tokens?: number | null
  temperature?: number | null
  top_p?: number | null
  top_k?: number | null
  seed?: number | null
  stop?: string | string[] | null
  n?: number | null
  response_format?: { type?: string; json_schema?: { schema?: unknown } } | null
}

/** The conversation so far; the last item is the answer to be written. */
export function historyOf(messages: unknown): HistoryItem[] {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw new UnusableError('messages must be a list with at least one message')
  }
  const history: HistoryItem[] = []
  const calls = new Map<string, FunctionCallItem>()
  for (const [index, message] of (messages as Message[]).entries()) {
    const text = textOf(message?.content, index)
    if (message.role === 'assistant')
      history.push({ type: 'model', response: answered(message, text, calls) })
    else if (message.role === 'tool') answerCall(calls.get(message.tool_call_id ?? ''), text)
    else history.push({ type: message.role === 'user' ? 'user' : 'system', text })
  }
  return history.at(-1)?.type === 'model' ? history : [...history, { type: 'model', response: [] }]
}

/** The functions that the model may call, by name. */
export function functionsOf({ tools, tool_choice: choice }: ChatBody) {
  if (!Array.isArray(tools) || tools.length === 0 || choice === 'none') return undefined
  const named = (tools as Tool[]).flatMap(({ function: one }) =>
    one?.name === undefined
      ? []
      : [[one.name, { description: one.description ?? '', params: one.parameters }] as const],
  )
  return Object.fromEntries(named)
}

function answered(message: Message, text: string, calls: Map<string, FunctionCallItem>) {
  const items = (message.tool_calls ?? []).map((call): FunctionCallItem => {
    const { name = '', arguments: given = '{}' } = call.function ?? {}
    const item: FunctionCallItem = { type: 'functionCall', name, params: parsed(given), result: null }
    calls.set(call.id ?? '', item)
    return item
  })
  return [...(text === '' ? [] : [text]), ...items]
}

function answerCall(call: FunctionCallItem | undefined, text: string): void {
  if (!call) throw new UnusableError('a message of role tool must name a tool call made before it')
  call.result = parsed(text)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function textOf(content: unknown, index: number): string {
  if (content === null || content === undefined) return ''
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) throw new UnusableError(`messages[${index}].content must be a text or parts`)
  const parts = content as { type?: string; text?: string }[]
  const other = parts.find(({ type }) => type !== 'text')
  if (other) {
    throw new UnusableError(
      `messages[${index}].content has a part of type ${other.type}; this model reads text only`,
    )
  }
  return parts.map(({ text }) => text ?? '').join('')
}
