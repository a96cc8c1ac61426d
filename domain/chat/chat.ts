/** Task types that `/v1/chat/completions` serves. */
export const CHAT_TASK_TYPES = ['chat', 'code', 'text-generation'] as const

/** The path at which every language model server accepts chats, and the default name under which it serves its model. */
export const CHAT_PATH = '/v1/chat/completions'
export const SERVED_MODEL = 'model'

/** The first node runtime versions that stream responses and that can echo the request's model name. */
const FIRST_STREAMING = [0, 10, 195] as const
const FIRST_NAMING = [0, 12, 0] as const

export const isChatCapable = (taskType: string): boolean =>
  (CHAT_TASK_TYPES as readonly string[]).includes(taskType)

/** Returns whether a node of this runtime version streams a response while the model produces it. */
export const canStream = (version: string): boolean => isAtLeast(version, FIRST_STREAMING)

/**
 * Returns whether a node of this runtime version accepts any name for its model in a chat, and uses that name in the
 * response.
 */
export const takesModelName = (version: string): boolean => isAtLeast(version, FIRST_NAMING)

function isAtLeast(version: string, least: readonly number[]): boolean {
  const parts = version.split('.', 3)
  for (const [i, lowest] of least.entries()) {
    const part = Number.parseInt(parts[i] ?? '', 10) || 0
    if (part !== lowest) return part > lowest
  }
  return true
}

/** Tokens that a language model read (prompt) and wrote (completion). */
export interface TokenCounts {
  readonly in: number
  readonly out: number
}

export const NO_TOKENS: TokenCounts = Object.freeze({ in: 0, out: 0 })

/**
 * Splits a total into tokens read and tokens written. If the model reports no completion count, the completion is the
 * total minus the prompt. If it reports neither, all tokens count as read, as for embeddings.
 */
export function splitTokens(
  total: number,
  { prompt, completion }: { prompt?: unknown; completion?: unknown },
) {
  const rest = isTokenCount(prompt) ? total - prompt : 0
  const out = Math.max(0, Math.min(total, isTokenCount(completion) ? completion : rest))
  return total === 0 ? NO_TOKENS : { in: total - out, out }
}

/** Returns the tokens that a language model's response reports; empty when it reports none. */
export function tokensIn(answer: unknown): TokenCounts {
  const usage = (answer as { usage?: unknown } | null | undefined)?.usage
  if (typeof usage !== 'object' || usage === null) return NO_TOKENS
  const { total_tokens: total, prompt_tokens: prompt, completion_tokens: completion } = usage as Counts
  const sum = isTokenCount(total)
    ? total
    : (isTokenCount(prompt) ? prompt : 0) + (isTokenCount(completion) ? completion : 0)
  return isTokenCount(sum) ? splitTokens(sum, { prompt, completion }) : NO_TOKENS
}

/** Like `tokensIn`, but for the text of a response or event; undefined unless it is a JSON object with `usage`. */
export function tokensOf(text: string): TokenCounts | undefined {
  try {
    const { usage } = JSON.parse(text) as { usage?: unknown }
    return typeof usage === 'object' && usage !== null ? tokensIn({ usage }) : undefined
  } catch {
    return undefined
  }
}

type Counts = Partial<Record<'total_tokens' | 'prompt_tokens' | 'completion_tokens', unknown>>

/** Above the token count of any real response. Larger counts are ignored, because counts are added up. */
export const MAX_TOKENS = 100_000_000

export const isTokenCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= MAX_TOKENS
