import { tokensOf } from '../../../../domain/chat/chat.ts'

const USAGE = Buffer.from('"usage"')

/**
 * Returns the tokens that a large answer reports in its last member, without parsing the vectors before it; 0 when the
 * usage stands elsewhere.
 */
export function usageTokens(answer: Buffer): number {
  const at = answer.lastIndexOf(USAGE)
  return at === -1 ? 0 : (tokensOf(`{${answer.toString('utf8', at)}`) ?? 0)
}
