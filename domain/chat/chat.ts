/** Task types that `/v1/chat/completions` serves. */
export const CHAT_TASK_TYPES = ['chat', 'code', 'text-generation'] as const

/** Where every language model server takes its requests, and the name under which it serves its model to whoever gives none. */
export const CHAT_PATH = '/v1/chat/completions'
export const SERVED_MODEL = 'model'

/** First versions of the node runtime that pass streams on, and that let answers name the model as the caller did. */
const FIRST_STREAMING = [0, 10, 195] as const
const FIRST_NAMING = [0, 12, 0] as const

export const isChatCapable = (taskType: string): boolean =>
  (CHAT_TASK_TYPES as readonly string[]).includes(taskType)

/** Whether a node of this runtime version passes an answer on as it is produced. */
export const canStream = (version: string): boolean => isAtLeast(version, FIRST_STREAMING)

/** Whether a node of this runtime version takes a chat under any name of its model, and answers under that name. */
export const takesModelName = (version: string): boolean => isAtLeast(version, FIRST_NAMING)

function isAtLeast(version: string, least: readonly number[]): boolean {
  const parts = version.split('.', 3)
  for (const [i, lowest] of least.entries()) {
    const part = Number.parseInt(parts[i] ?? '', 10) || 0
    if (part !== lowest) return part > lowest
  }
  return true
}

/** The tokens that an answer of a language model says it took; 0 when it does not say. */
export function tokensIn(answer: unknown): number {
  const usage = (answer as { usage?: unknown } | null | undefined)?.usage
  if (typeof usage !== 'object' || usage === null) return 0
  const { total_tokens: total, prompt_tokens: prompt, completion_tokens: completion } = usage as Counts
  const sum = isTokenCount(total)
    ? total
    : (isTokenCount(prompt) ? prompt : 0) + (isTokenCount(completion) ? completion : 0)
  return isTokenCount(sum) ? sum : 0
}

/** The same of an answer's text, or an event's; undefined when that is no JSON object with a `usage`. */
export function tokensOf(text: string): number | undefined {
  try {
    const { usage } = JSON.parse(text) as { usage?: unknown }
    return typeof usage === 'object' && usage !== null ? tokensIn({ usage }) : undefined
  } catch {
    return undefined
  }
}

type Counts = Partial<Record<'total_tokens' | 'prompt_tokens' | 'completion_tokens', unknown>>

/** More tokens than any model takes for one answer: what a node says beyond it is not believed, for counts are added up. */
export const MOST_TOKENS = 100_000_000

export const isTokenCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= MOST_TOKENS
