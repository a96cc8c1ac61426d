import type { NodeDecision } from '../../../db/repositories/nodes/nodes.ts'
import type { NodeSharing } from '../../../schemas/node.ts'

/** What operators and the platform have decided about a linked node. */
export interface Decided {
  readonly draining: boolean
  readonly sharing: NodeSharing
  /** Models that it keeps loaded. */
  readonly pinned: readonly string[]
  /** Models whose load the platform ordered: what the node says of others counts for nothing. */
  readonly ordered: ReadonlySet<string>
}

export const decidedIn = ({ status, sharing, pinned, ordered }: NodeDecision): Decided => ({
  draining: status === 'draining',
  sharing,
  pinned,
  ordered: new Set(ordered),
})
