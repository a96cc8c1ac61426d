import { setImmediate } from 'node:timers/promises'
import type { ContextText, Tokenize } from './binding.ts'
import { UnusableError } from './unusable-error.ts'

/** Characters that are read as tokens in one go. */
const SLICE = 4_096
/** Tokens by which a text may count more in two slices than in one. */
const CUT_TOKENS = 8

/**
 * The tokens of a prompt; throws when the model reads no more than `most`. What is far too long is refused after as much as
 * could fit: to read all of a megabyte as tokens takes minutes, in which this server could do nothing else.
 */
export async function countPrompt(
  prompt: ContextText,
  { tokenize, most, signal }: { tokenize: Tokenize; most: number; signal: AbortSignal },
): Promise<number> {
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
  const count = prompt.tokenize(tokenize).length
  if (count >= most) throw tooLong(String(count), most)
  return count
}

const tooLong = (count: string, most: number): UnusableError =>
  new UnusableError(`the messages take ${count} tokens; this model reads at most ${most}`, 'messages')
