import type { StageOperation } from '../../../schemas/cohorts/plan.ts'
import { isTokenCount, NO_TOKENS, type TokenCounts, tokensIn } from '../../chat/chat.ts'

/**
 * Returns the tokens that count for a stage. A prompt counts only if a model reads it. A stage that continues from a
 * handed-over cache reports the prompt in its usage, as every response does, but computed none of it.
 */
export function tokensOfStage(
  operation: StageOperation,
  result: Readonly<Record<string, unknown>>,
): TokenCounts {
  if (operation === 'prefill') {
    const read = result['tokens']
    return isTokenCount(read) && read > 0 ? { in: read, out: 0 } : NO_TOKENS
  }
  const tokens = tokensIn(result)
  if (operation !== 'decode') return tokens
  return tokens.out > 0 ? { in: 0, out: tokens.out } : NO_TOKENS
}
