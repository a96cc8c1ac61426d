import { setImmediate } from 'node:timers/promises'
import type { ContextText, Tokenize } from './binding.ts'
import { UnusableError } from './unusable-error.ts'

/** The number of characters per tokenizer call. */
const SLICE = 4_096
/** The maximum number of tokens that splitting text into two slices can add. */
const CUT_TOKENS = 8

/**
 * Returns the tokens of a prompt; throws if there are more than `most`. Stops tokenizing as soon as the text exceeds
 * the limit, because tokenizing a megabyte takes minutes and blocks this server.
 */
export async function promptTokens(
  prompt: ContextText,
  { tokenize, most, signal }: { tokenize: Tokenize; most: number; signal: AbortSignal },
): Promise<number[]> {
  let least = 0
  let unyielded = 0
  for (const value of prompt.values) {
    if (typeof value !== 'string') continue
    for (let at = 0; at < value.length; at += SLICE) {
      least += tokenize(value.slice(at, at + SLICE)).length - (at === 0 ? 0 : CUT_TOKENS)
      if (least >= most) throw tooLong(`more than ${most}`, most)
      unyielded += Math.min(SLICE, value.length - at)
      if (unyielded < SLICE) continue
      unyielded = 0
      await setImmediate()
      signal.throwIfAborted()
    }
  }
  const tokens = prompt.tokenize(tokenize)
  if (tokens.length >= most) throw tooLong(String(tokens.length), most)
  return tokens
}

const tooLong = (count: string, most: number): UnusableError =>
  new UnusableError(`the messages take ${count} tokens; this model accepts at most ${most}`, 'messages')
