interface ChatStart {
  messages?: unknown
  prompt_cache_key?: unknown
}

interface Message {
  role?: unknown
  content?: unknown
}

/** Conversations rarely share a longer prefix than this and then differ. */
const MAX_PREFIX_CHARS = 2_048
const MAX_PREFIX_MESSAGES = 4

/**
 * Returns a key shared by requests that a model server can answer faster together, because it has already read their
 * prefix. The key is OpenAI's `prompt_cache_key`, else the session id, else the messages up to the first user message.
 */
export function affinityOf({ messages, prompt_cache_key: key }: ChatStart, sessionId?: unknown): string {
  if (typeof key === 'string' && key !== '') return `key ${key.slice(0, MAX_PREFIX_CHARS)}`
  if (typeof sessionId === 'string' && sessionId !== '') return `session ${sessionId}`
  const all = Array.isArray(messages) ? (messages as Message[]) : []
  const end = all.findIndex(({ role }) => role === 'user')
  const start = all.slice(0, Math.min(end + 1, MAX_PREFIX_MESSAGES))
  return `start ${start.map(({ role, content }) => `${String(role)}\n${textOf(content)}`).join('\n')}`
}

/** Returns the start of a message's text. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content.slice(0, MAX_PREFIX_CHARS)
  const [first] = Array.isArray(content) ? (content as { text?: unknown }[]) : []
  return typeof first?.text === 'string' ? first.text.slice(0, MAX_PREFIX_CHARS) : ''
}

/**
 * Returns the node that a key prefers (rendezvous hashing, https://doi.org/10.1109/90.663936). The choice is stable for
 * as long as that node is among the candidates. The account is part of the hash, so other accounts can't learn from a
 * node what this one sent there.
 */
export function preferredNode(
  nodeIds: readonly string[],
  accountId: string,
  key: string,
): string | undefined {
  const hash = hashOf(`${accountId} ${key}`)
  let best: { nodeId: string; weight: number } | undefined
  for (const nodeId of nodeIds) {
    const weight = hashOf(`${hash} ${nodeId}`)
    if (!best || weight > best.weight) best = { nodeId, weight }
  }
  return best?.nodeId
}

/** FNV-1a with the MurmurHash3 finalizer; without the finalizer, similar texts get similar hashes. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}
