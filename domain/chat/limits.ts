import { invalid } from '../errors.ts'
import { patternWeight, weighSchema } from '../schema-weight.ts'

/** Upper bounds for one chat, because many accounts share a model server. */
export const CHAT_LIMITS = {
  answers: 8,
  tokens: 1_048_576,
  logprobs: 20,
  stops: 16,
  stopLength: 256,
  words: 256,
  biases: 1_024,
  messages: 10_000,
  tools: 128,
  toolBytes: 512 * 1024,
  choices: 1_000,
  schemaBytes: 64 * 1024,
  grammarBytes: 16 * 1024,
  /** Steps of the automaton that a pattern compiles to, with its repetitions expanded. */
  patternWeight: 5_000,
  /** Subschemas that apply at one location of the response. */
  schemaAtOnce: 1_000,
} as const

/** Returns an error message for a member, or undefined. The model server itself rejects members of a wrong type. */
type MemberCheck = (value: unknown) => string | undefined

const L = CHAT_LIMITS

const atMost =
  (most: number): MemberCheck =>
  (value) =>
    typeof value === 'number' && !(value <= most) ? `must be at most ${most}` : undefined

const listOf =
  (most: number, what: string): MemberCheck =>
  (value) =>
    Array.isArray(value) && value.length > most ? `must have at most ${most} ${what}` : undefined

const textUpTo =
  (most: number): MemberCheck =>
  (value) =>
    typeof value === 'string' && value.length > most ? `must have at most ${most} characters` : undefined

const firstOf =
  (...checks: MemberCheck[]): MemberCheck =>
  (value) => {
    for (const check of checks) {
      const fault = check(value)
      if (fault !== undefined) return fault
    }
    return undefined
  }

const shortTexts =
  (most: number): MemberCheck =>
  (value) =>
    Array.isArray(value) && value.some((text) => typeof text === 'string' && text.length > most)
      ? `must contain strings of at most ${most} characters`
      : undefined

const pattern: MemberCheck = (value) =>
  typeof value === 'string' && patternWeight(value) > L.patternWeight
    ? 'is too large: nested repetitions multiply'
    : undefined

const bytes =
  (most: number): MemberCheck =>
  (value) =>
    value !== undefined && value !== null && JSON.stringify(value).length > most
      ? `must be at most ${most} bytes of JSON`
      : undefined

const schema: MemberCheck = (value) => {
  // vLLM also accepts the schema as a JSON string.
  const given = typeof value === 'string' ? parsed(value) : value
  if (typeof given !== 'object' || given === null) return textUpTo(L.schemaBytes)(value)
  return firstOf(bytes(L.schemaBytes), (one) => {
    if (weighSchema(one as Record<string, unknown>, 1).atOnce > L.schemaAtOnce)
      return 'is too large: nested references and branches multiply'
    return patternsOf(one)
      .map(pattern)
      .find((fault) => fault !== undefined)
  })(given)
}

const member =
  (checks: Readonly<Record<string, MemberCheck>>): MemberCheck =>
  (value) => {
    if (typeof value !== 'object' || value === null) return undefined
    for (const [name, check] of Object.entries(checks)) {
      const fault = check((value as Record<string, unknown>)[name])
      if (fault !== undefined) return `${name} ${fault}`
    }
    return undefined
  }

const choices = firstOf(listOf(L.choices, 'strings'), shortTexts(L.grammarBytes))
const grammar = textUpTo(L.grammarBytes)
const regex = firstOf(textUpTo(L.grammarBytes), pattern)
const words = firstOf(listOf(L.words, 'strings'), shortTexts(L.stopLength))

/** Keyed by the member names that OpenAI and vLLM use. */
const CHECKS = new Map<string, MemberCheck>([
  ['n', atMost(L.answers)],
  ['best_of', atMost(L.answers)],
  ['max_tokens', atMost(L.tokens)],
  ['max_completion_tokens', atMost(L.tokens)],
  ['min_tokens', atMost(L.tokens)],
  ['truncate_prompt_tokens', atMost(L.tokens)],
  ['top_logprobs', atMost(L.logprobs)],
  ['logprobs', atMost(L.logprobs)],
  ['prompt_logprobs', atMost(L.logprobs)],
  ['stop', firstOf(textUpTo(L.stopLength), listOf(L.stops, 'strings'), shortTexts(L.stopLength))],
  ['stop_token_ids', listOf(L.words, 'tokens')],
  ['bad_words', words],
  ['allowed_token_ids', listOf(L.tokens, 'tokens')],
  [
    'logit_bias',
    (value) =>
      typeof value === 'object' && value !== null && Object.keys(value).length > L.biases
        ? `must have at most ${L.biases} members`
        : undefined,
  ],
  ['messages', listOf(L.messages, 'messages')],
  ['tools', firstOf(listOf(L.tools, 'tools'), bytes(L.toolBytes))],
  ['functions', firstOf(listOf(L.tools, 'functions'), bytes(L.toolBytes))],
  ['response_format', member({ json_schema: member({ schema }), schema, structures: bytes(L.schemaBytes) })],
  ['guided_json', schema],
  ['guided_regex', regex],
  ['guided_grammar', grammar],
  ['guided_choice', choices],
  ['structured_outputs', member({ json: schema, regex, grammar, choice: choices, structural_tag: grammar })],
])

/**
 * Rejects a chat that exceeds a limit; the error names the member, with `loc` as its path. `names` maps members of a
 * chat to the names under which the caller sent them.
 */
export function checkChatLimits(
  body: object,
  loc: readonly string[],
  names: Readonly<Record<string, string>> = {},
): void {
  for (const name in body) {
    const check = CHECKS.get(name)
    if (!check) continue
    const fault = check((body as Record<string, unknown>)[name])
    if (fault !== undefined) throw invalid([...loc, names[name] ?? name], fault, 'limit')
  }
}

function parsed(text: string): unknown {
  if (text.length > L.schemaBytes) return undefined
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

/** Returns every pattern in a schema, at any depth. */
function patternsOf(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, one]) => {
    const names =
      name === 'patternProperties' && typeof one === 'object' && one !== null ? Object.keys(one) : []
    return name === 'pattern' && typeof one === 'string' ? [one] : [...names, ...patternsOf(one)]
  })
}
