import { setImmediate } from 'node:timers/promises'
import type { ContextText, Tokenize } from './binding.ts'
import type { ContextLimit, ContextPlan } from './fit-context.ts'
import { UnusableError } from './unusable-error.ts'

type Context = Pick<ContextPlan, 'length' | 'limit' | 'own'>

/** The number of characters per tokenizer call. */
const SLICE = 4_096
/** The maximum number of tokens that splitting text into two slices can add. */
const CUT_TOKENS = 8
/** The library drops the beginning of a prompt that leaves less room than this in the context. */
export const OUTPUT_TOKENS = 2

/** Explains to the caller of a prompt that is too long where the length of the context comes from. */
const REASONS: Readonly<Record<ContextLimit, (plan: Context) => string>> = {
  model: () => "this is the model's own context length",
  setting: () => "this is the endpoint's setting max_model_len",
  memory: ({ own }) =>
    `the node has no memory for more of the model's own context of ${own}, so use a node with more memory or a smaller quantization`,
}

/**
 * Returns the tokens of a prompt; throws unless they leave room for an output in the context. Stops tokenizing as soon as the text exceeds
 * the limit, because tokenizing a megabyte takes minutes and blocks this server.
 */
export async function promptTokens(
  prompt: ContextText,
  {
    tokenize,
    context,
    signal,
  }: {
    tokenize: Tokenize
    context: Context
    signal: AbortSignal
  },
): Promise<number[]> {
  const most = context.length - OUTPUT_TOKENS
  let least = 0
  let unyielded = 0
  for (const value of prompt.values) {
    if (typeof value !== 'string') continue
    for (let at = 0; at < value.length; at += SLICE) {
      least += tokenize(value.slice(at, at + SLICE)).length - (at === 0 ? 0 : CUT_TOKENS)
      if (least > most) throw tooLong(`more than ${most}`, context)
      unyielded += Math.min(SLICE, value.length - at)
      if (unyielded < SLICE) continue
      unyielded = 0
      await setImmediate()
      signal.throwIfAborted()
    }
  }
  const tokens = prompt.tokenize(tokenize)
  if (tokens.length > most) throw tooLong(String(tokens.length), context)
  return tokens
}

const tooLong = (count: string, context: Context): UnusableError =>
  new UnusableError(
    `the messages take ${count} tokens, but prompt and output together may take at most ${context.length}: ` +
      REASONS[context.limit](context),
    'messages',
  )
