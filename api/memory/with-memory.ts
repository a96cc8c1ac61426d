import { leadingMessage } from '../../domain/memory/message.ts'
import { firstElement, memberBytes, replaceAt, spliceMembers } from '../../platform/json-bytes.ts'

/** Returns a chat request with the memory in its leading system message; all other bytes stay unchanged. */
export function withMemory(json: Buffer, memory: string): Buffer {
  const messages = memberBytes(json, 'messages')
  const first = messages && firstElement(messages)
  if (!first) return json
  const given = JSON.parse(messages.toString('utf8', first.start, first.end)) as unknown
  const { message, replaces } = leadingMessage(given, memory)
  const text = JSON.stringify(message)
  const range = replaces ? first : { start: first.start, end: first.start }
  const changed = replaceAt(messages, range, Buffer.from(replaces ? text : `${text},`))
  return spliceMembers(json, { messages: changed.toString() })
}

/** Returns the messages of a chat request. */
export function messagesOf(json: Buffer): unknown[] {
  const messages = memberBytes(json, 'messages')
  const parsed = messages === undefined ? [] : (JSON.parse(messages.toString()) as unknown)
  return Array.isArray(parsed) ? parsed : []
}
