import { NO_TOKENS, type TokenCounts, tokensOf } from '../../../../domain/chat/chat.ts'

const USAGE = Buffer.from('"usage"')

/**
 * Returns the tokens that a large response reports in its last member, without parsing the vectors before it. Returns
 * none if the usage is elsewhere.
 */
export function usageTokens(answer: Buffer): TokenCounts {
  const at = answer.lastIndexOf(USAGE)
  return at === -1 ? NO_TOKENS : (tokensOf(`{${answer.toString('utf8', at)}`) ?? NO_TOKENS)
}
