import { randomInt } from 'node:crypto'
import type { HistoryItem } from './binding.ts'
import type { PayloadAnnouncement } from './exchange.ts'
import { historyOf } from './history.ts'
import { type Output, type OutputBody, readOutput } from './output.ts'
import { UnusableError } from './unusable-error.ts'

const MAX_STOPS = 16
/** The model name for requests that don't name one. */
export const SERVED_NAME = 'model'
const MAX_SEED = 2 ** 32 - 1

/** Sampling options; absent ones default to the values of the model's authors or of the library. */
export interface Sampling {
  maxTokens?: number
  temperature: number
  topP?: number
  topK?: number
  seed: number
  presencePenalty: number
  frequencyPenalty: number
}

/** The parsed request. Unknown fields are ignored, as everywhere in the OpenAI-compatible API. */
export interface ChatRequest {
  /** The model name from the request, which the response repeats. */
  model: string
  history: HistoryItem[]
  output: Output
  sampling: Sampling
  stops: string[]
  isStream: boolean
  withUsage: boolean
}

type Body = OutputBody & Record<string, unknown>

/** A prompt to evaluate for another server: messages, or plain text. */
export interface PrefillRequest {
  prompt: string | undefined
  history: HistoryItem[]
  output: Output
  file: unknown
}

/** The history for a prompt that was evaluated elsewhere; only its tokens are known. */
const UNKNOWN_HISTORY: HistoryItem[] = [
  { type: 'user', text: '' },
  { type: 'model', response: [] },
]

/** Validates the fields of a prompt to evaluate for another server. */
export function readPrefill(given: unknown): PrefillRequest {
  const body = objectOf(given)
  const prompt = typeof body['prompt'] === 'string' && body['prompt'] !== '' ? body['prompt'] : undefined
  return {
    prompt,
    history: prompt === undefined ? historyOf(body['messages']) : UNKNOWN_HISTORY,
    output: readOutput(body),
    file: body['file'],
  }
}

/** Validates the fields of a request that continues from a payload and needs no messages. */
export function readDecode(given: unknown): { request: ChatRequest; payload: PayloadAnnouncement } {
  const body = objectOf(given)
  const payload = { file: body['file'], sizeBytes: body['size_bytes'], sha256: body['sha256'] }
  return { request: requestOf(body, UNKNOWN_HISTORY), payload }
}

/** Validates the fields in use; throws an `UnusableError` that names the first invalid one. */
export function readChat(given: unknown): ChatRequest {
  const body = objectOf(given)
  return requestOf(body, historyOf(body['messages']))
}

function objectOf(given: unknown): Body {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new UnusableError('the body must be an object')
  }
  return given as Body
}

function requestOf(body: Body, history: HistoryItem[]): ChatRequest {
  if ((body['n'] ?? 1) !== 1) throw new UnusableError('n must be 1: this model returns one answer', 'n')
  for (const field of ['logprobs', 'top_logprobs']) {
    if (![undefined, null, false, 0].includes(body[field] as null)) {
      throw new UnusableError(`${field} is not supported: this model returns no token probabilities`, field)
    }
  }
  const options = body['stream_options'] as { include_usage?: unknown } | null | undefined
  const model = body['model']
  return {
    model: typeof model === 'string' && model !== '' ? model : SERVED_NAME,
    history,
    output: readOutput(body),
    sampling: samplingOf(body),
    stops: stopsOf(body['stop'] ?? []),
    isStream: body['stream'] === true,
    withUsage: options?.include_usage === true,
  }
}

function samplingOf(body: Body): Sampling {
  const most = 2 ** 31
  const maxTokens = whole(body, 'max_completion_tokens', [1, most]) ?? whole(body, 'max_tokens', [1, most])
  const topP = number(body, 'top_p', [0, 1])
  const topK = whole(body, 'top_k', [-1, most])
  const seed = whole(body, 'seed', [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER])
  return {
    ...(maxTokens !== undefined && { maxTokens }),
    temperature: number(body, 'temperature', [0, 2]) ?? 1,
    ...(topP !== undefined && { topP }),
    // A value below 1 means all tokens, for which the library uses 0.
    ...(topK !== undefined && { topK: Math.max(0, topK) }),
    // The library's default seed is the time in seconds, so all responses within one second would have the same text.
    seed: seed === undefined ? randomInt(MAX_SEED) : Math.abs(seed) % MAX_SEED,
    presencePenalty: number(body, 'presence_penalty', [-2, 2]) ?? 0,
    frequencyPenalty: number(body, 'frequency_penalty', [-2, 2]) ?? 0,
  }
}

type Range = readonly [lowest: number, highest: number]

function number(body: Body, name: string, range: Range, kind = 'a number'): number | undefined {
  const value = body[name] ?? undefined
  if (value === undefined) return undefined
  const [lowest, highest] = range
  const isRight = typeof value === 'number' && value >= lowest && value <= highest
  if (isRight && (kind === 'a number' || Number.isInteger(value))) return value
  throw new UnusableError(`${name} must be ${kind} from ${lowest} to ${highest}`, name)
}

const whole = (body: Body, name: string, range: Range) => number(body, name, range, 'a whole number')

function stopsOf(stop: unknown): string[] {
  const stops: unknown[] = Array.isArray(stop) ? stop : [stop]
  if (stops.length > MAX_STOPS || !stops.every((one) => typeof one === 'string')) {
    throw new UnusableError(`stop must be a string or a list of at most ${MAX_STOPS} strings`, 'stop')
  }
  return stops.filter((one) => one !== '')
}
