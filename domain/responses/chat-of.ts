import type { CreateResponse } from '../../schemas/openai/responses.ts'
import { invalid } from '../errors.ts'
import { formatOf, toolChoiceOf, toolOf } from './settings.ts'

type Loc = readonly (string | number)[]
type Fields = Readonly<Record<string, unknown>>

/** A chat message, with the field names of OpenAI's Chat Completions API. */
interface ChatMessage {
  role: string
  content?: unknown
  tool_calls?: object[]
  tool_call_id?: string
}

/** Fields that need stored responses, which this platform doesn't have. */
const STORED = ['previous_response_id', 'conversation', 'prompt'] as const

/**
 * Returns the chat request for a Responses API request. Throws a 422 that locates anything a chat cannot express. Names
 * and meanings of items follow OpenAI's API reference.
 */
export function chatOf(request: CreateResponse): Record<string, unknown> {
  for (const name of STORED) {
    if (request[name] === undefined || request[name] === null) continue
    throw invalid(
      ['body', name],
      'is not supported: responses are not stored here; send the whole conversation in input',
    )
  }
  if (request.background === true)
    throw invalid(['body', 'background'], 'must be false: responses are not stored here')
  const { model, instructions, input, tools, text, stream } = request
  const messages: ChatMessage[] = instructions ? [{ role: 'system', content: instructions }] : []
  if (typeof input === 'string') messages.push({ role: 'user', content: input })
  else for (const [i, item] of input.entries()) addItem(messages, item, ['body', 'input', i])
  const chosen = toolChoiceOf(request.tool_choice, ['body', 'tool_choice'])
  const format = formatOf(text?.format, ['body', 'text', 'format'])
  return {
    model,
    messages,
    ...given('max_tokens', request.max_output_tokens),
    ...given('temperature', request.temperature),
    ...given('top_p', request.top_p),
    ...(tools && tools.length > 0 && { tools: tools.map((tool, i) => toolOf(tool, ['body', 'tools', i])) }),
    ...given('tool_choice', chosen),
    ...given('parallel_tool_calls', request.parallel_tool_calls),
    ...given('response_format', format),
    ...given('reasoning_effort', request.reasoning?.['effort']),
    ...given('user', request.user),
    ...(stream && { stream: true, stream_options: { include_usage: true } }),
  }
}

const given = (name: string, value: unknown): object =>
  value === undefined || value === null ? {} : { [name]: value }

function addItem(messages: ChatMessage[], item: unknown, loc: Loc): void {
  const fields = objectAt(item, loc)
  const { type = 'message' } = fields
  switch (type) {
    case 'message':
      messages.push(messageOf(fields, loc))
      return
    case 'function_call':
      return addCall(messages, fields, loc)
    case 'function_call_output': {
      const tool_call_id = textAt(fields, 'call_id', loc)
      messages.push({ role: 'tool', tool_call_id, content: contentOf(fields['output'], [...loc, 'output']) })
      return
    }
    // Reasoning from an earlier response, which chats don't accept as input.
    case 'reasoning':
      return
    default:
      throw invalid([...loc, 'type'], 'must be message, function_call, function_call_output or reasoning')
  }
}

const ROLES = new Set<unknown>(['user', 'assistant', 'system', 'developer'])

function messageOf(fields: Fields, loc: Loc): ChatMessage {
  const { role, content } = fields
  if (!ROLES.has(role)) throw invalid([...loc, 'role'], 'must be user, assistant, system or developer')
  return { role: role as string, content: contentOf(content, [...loc, 'content']) }
}

/** Calls follow the assistant message that makes them; consecutive calls share one chat message. */
function addCall(messages: ChatMessage[], fields: Fields, loc: Loc): void {
  const call = {
    id: textAt(fields, 'call_id', loc),
    type: 'function',
    function: { name: textAt(fields, 'name', loc), arguments: textAt(fields, 'arguments', loc) },
  }
  const last = messages.at(-1)
  if (last?.role === 'assistant') (last.tool_calls ??= []).push(call)
  else messages.push({ role: 'assistant', content: null, tool_calls: [call] })
}

/** Text alone stays a plain string, which every chat template accepts. */
function contentOf(content: unknown, loc: Loc): unknown {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) throw invalid(loc, 'must be a string or a list of parts')
  const parts = content.map((part: unknown, i) => partOf(part, [...loc, i]))
  const texts = parts.flatMap((part) => ('text' in part ? [part.text] : []))
  return texts.length === parts.length ? texts.join('\n') : parts
}

type Part =
  | { type: 'text'; text: string }
  | { type: 'image_url'; image_url: { url: string; detail?: unknown } }

function partOf(part: unknown, loc: Loc): Part {
  const fields = objectAt(part, loc)
  switch (fields['type']) {
    case 'input_text':
    case 'output_text':
      return { type: 'text', text: textAt(fields, 'text', loc) }
    case 'refusal':
      return { type: 'text', text: textAt(fields, 'refusal', loc) }
    case 'input_image': {
      const detail = fields['detail']
      const url = textAt(fields, 'image_url', loc)
      return { type: 'image_url', image_url: { url, ...(detail !== undefined && { detail }) } }
    }
    default:
      throw invalid([...loc, 'type'], 'must be input_text, output_text, refusal or input_image')
  }
}

function objectAt(value: unknown, loc: Loc): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields
  throw invalid(loc, 'must be an object', 'type')
}

function textAt(fields: Fields, name: string, loc: Loc): string {
  const value = fields[name]
  if (typeof value === 'string') return value
  throw invalid(
    [...loc, name],
    value === undefined ? 'Field required' : 'must be a string',
    value === undefined ? 'missing' : 'type',
  )
}
