import { OF_OTHERS } from '../../domain/placement/need.ts'
import type { Verdict } from '../../domain/placement/placement.ts'

const MAX_REASON_LENGTH = 300

/** Explains why no node can run a request, without disclosing the owners or names of other accounts' nodes. */
export function noNodeReason(verdicts: readonly Verdict[]): string {
  if (verdicts.length === 0) return 'no node is connected'
  const reasons = new Set(verdicts.map(({ reason }) => reason))
  reasons.delete(OF_OTHERS)
  if (reasons.size === 0) return 'no node that works for this account is connected'
  return [...reasons]
    .map((reason) => `one ${reason}`)
    .join('; ')
    .slice(0, MAX_REASON_LENGTH)
}
