interface ChatStart {
  messages?: unknown
  prompt_cache_key?: unknown
}

interface Message {
  role?: unknown
  content?: unknown
}

/** Longer beginnings of conversations rarely differ only behind this. */
const MAX_PREFIX_CHARS = 2_048
const MAX_PREFIX_MESSAGES = 4

/**
 * Returns a key that requests have in common which a model server answers faster together, because it has read their beginning
 * before: OpenAI's `prompt_cache_key`, else the id of the session, else the messages up to the first one of a user.
 */
export function affinityOf({ messages, prompt_cache_key: key }: ChatStart, sessionId?: unknown): string {
  if (typeof key === 'string' && key !== '') return `key ${key.slice(0, MAX_PREFIX_CHARS)}`
  if (typeof sessionId === 'string' && sessionId !== '') return `session ${sessionId}`
  const all = Array.isArray(messages) ? (messages as Message[]) : []
  const end = all.findIndex(({ role }) => role === 'user')
  const start = all.slice(0, Math.min(end + 1, MAX_PREFIX_MESSAGES))
  return `start ${start.map(({ role, content }) => `${String(role)}\n${textOf(content)}`).join('\n')}`
}

/** Returns the beginning of a message. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content.slice(0, MAX_PREFIX_CHARS)
  const [first] = Array.isArray(content) ? (content as { text?: unknown }[]) : []
  return typeof first?.text === 'string' ? first.text.slice(0, MAX_PREFIX_CHARS) : ''
}

/**
 * Returns the node that a key prefers (rendezvous hashing, https://doi.org/10.1109/90.663936): the same one for as long as it is
 * among them. The account is part of the hash, so its neighbours can't learn from a node what it sent there.
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

/** FNV-1a with the last steps of MurmurHash3, without which similar texts have similar hashes. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}
