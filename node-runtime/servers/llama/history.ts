import type { FunctionCallItem, HistoryItem } from './binding.ts'
import { UnusableError } from './unusable-error.ts'

interface ToolCall {
  id?: string
  function?: { name?: string; arguments?: string }
}

interface Message {
  role?: string
  /** The function of a message with the role `function`, which answers a `function_call`. */
  name?: string
  function_call?: ToolCall['function']
  content?: unknown
  tool_calls?: ToolCall[]
  tool_call_id?: string
}

/** Converts the messages; the last item is the response to generate. */
export function historyOf(messages: unknown): HistoryItem[] {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw new UnusableError('messages must be a list with at least one message', 'messages')
  }
  const history: HistoryItem[] = []
  const calls = new Map<string, FunctionCallItem>()
  for (const [index, message] of (messages as Message[]).entries()) {
    if (typeof message?.role !== 'string') {
      throw new UnusableError(`messages[${index}] must be an object with a role`, `messages[${index}].role`)
    }
    const text = textOf(message.content, index)
    if (message.role === 'assistant')
      history.push({
        type: 'model',
        response: [...(text === '' ? [] : [text]), ...callsOf(message, index, calls)],
      })
    else if (message.role === 'tool') answerCall(calls.get(message.tool_call_id ?? ''), text)
    else if (message.role === 'function') answerCall(calls.get(functionKey(message.name)), text)
    else if (message.role === 'user') history.push({ type: 'user', text })
    else if (SYSTEM_ROLES.has(message.role)) history.push({ type: 'system', text })
    else {
      const at = `messages[${index}].role`
      throw new UnusableError(`${at} must be system, developer, user, assistant, tool or function`, at)
    }
  }
  return history.at(-1)?.type === 'model' ? history : [...history, { type: 'model', response: [] }]
}

const SYSTEM_ROLES = new Set(['system', 'developer'])

/** Returns the key of calls in the legacy form, which have no id: a result belongs to the last call of its function. */
const functionKey = (name: string | undefined): string => `function ${name ?? ''}`

function callsOf(
  { tool_calls, function_call }: Message,
  index: number,
  calls: Map<string, FunctionCallItem>,
) {
  const older = function_call && { id: functionKey(function_call.name), function: function_call }
  const given: unknown = tool_calls ?? (older ? [older] : [])
  const at = `messages[${index}].tool_calls`
  if (!Array.isArray(given)) throw new UnusableError(`${at} must be a list of calls`, at)
  return (given as (ToolCall | null)[]).map((call): FunctionCallItem => {
    if (typeof call?.function?.name !== 'string') throw new UnusableError(`${at} must name functions`, at)
    const { name, arguments: text = '{}' } = call.function
    const item: FunctionCallItem = { type: 'functionCall', name, params: parsed(text), result: null }
    calls.set(call.id ?? '', item)
    return item
  })
}

function answerCall(call: FunctionCallItem | undefined, text: string): void {
  if (!call)
    throw new UnusableError(
      'a message of role tool or function must name a call that was made before it',
      'messages',
    )
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
  const at = `messages[${index}].content`
  if (content === null || content === undefined) return ''
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) throw new UnusableError(`${at} must be a string or a list of parts`, at)
  const parts = content as { type?: string; text?: string }[]
  const other = parts.find((part) => part?.type !== 'text')
  if (other) {
    throw new UnusableError(`${at} has a part of type ${other.type}; this model reads text only`, at)
  }
  return parts.map(({ text }) => text ?? '').join('')
}
