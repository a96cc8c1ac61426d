import { hash } from 'node:crypto'

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
  const digest = hash('sha256', `${accountId} ${key}`)
  let best: { nodeId: string; weight: string } | undefined
  for (const nodeId of nodeIds) {
    const weight = hash('sha256', `${digest} ${nodeId}`)
    if (!best || weight > best.weight) best = { nodeId, weight }
  }
  return best?.nodeId
}
