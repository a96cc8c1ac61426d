import { CHAT_ROLES } from '../../schemas/openai/openai.ts'
import { invalidFor, type Issue } from '../errors.ts'

/** Members that an assistant's message may have instead of `content`. */
const INSTEAD_OF_CONTENT = ['tool_calls', 'function_call', 'refusal', 'audio', 'reasoning_content'] as const

/** The maximum number of errors reported in one response. */
const MAX_ISSUES = 100

/**
 * Rejects messages that are not `{role, content}` objects, and reports every error. The model server checks the parts
 * of a `content` and all other members.
 */
export function checkMessages(messages: readonly unknown[], loc: readonly (string | number)[]): void {
  const issues: Issue[] = []
  for (const [i, message] of messages.entries()) {
    const fault = faultOf(message)
    if (!fault) continue
    const { member, msg, type } = fault
    issues.push({ loc: member ? [...loc, i, member] : [...loc, i], msg, type })
    if (issues.length === MAX_ISSUES) break
  }
  if (issues.length > 0) throw invalidFor(issues)
}

interface MessageFault {
  member?: 'role' | 'content'
  msg: string
  type: string
}

function faultOf(message: unknown): MessageFault | undefined {
  if (typeof message !== 'object' || message === null || Array.isArray(message)) {
    return { msg: 'must be an object with role and content', type: 'type' }
  }
  const { role, content } = message as { role?: unknown; content?: unknown }
  if (role === undefined) return { member: 'role', msg: 'Field required', type: 'missing' }
  if (!(CHAT_ROLES as readonly unknown[]).includes(role)) {
    return { member: 'role', msg: `must be one of ${ROLES_IN_WORDS}`, type: 'enum' }
  }
  if (typeof content === 'string' || Array.isArray(content)) return undefined
  if (content === undefined || content === null) return withoutContent(message, role, content)
  return { member: 'content', msg: 'must be a string or a list of parts', type: 'type' }
}

const ROLES_IN_WORDS = CHAT_ROLES.map((role) => JSON.stringify(role)).join(', ')

/** Responses that call tools have a null or absent `content`, and clients send them back unchanged. */
function withoutContent(message: object, role: unknown, content: undefined | null): MessageFault | undefined {
  if (role === 'function' && content === null) return undefined
  if (role === 'assistant') {
    const fields = message as Readonly<Record<string, unknown>>
    if (INSTEAD_OF_CONTENT.some((name) => fields[name] !== undefined && fields[name] !== null))
      return undefined
    return {
      member: 'content',
      msg: 'Field required: a string, unless there are tool_calls',
      type: 'missing',
    }
  }
  if (content === undefined) return { member: 'content', msg: 'Field required', type: 'missing' }
  return { member: 'content', msg: 'must be a string or a list of parts, not null', type: 'type' }
}
