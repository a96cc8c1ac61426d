import type { NodeDecision } from '../../../db/repositories/nodes/nodes.ts'
import type { NodeSharing } from '../../../schemas/node.ts'

/** The decisions of operators and the platform about a linked node. */
export interface Decided {
  readonly draining: boolean
  readonly sharing: NodeSharing
  /** Models that are pinned on the node. */
  readonly pinned: readonly string[]
  /** Models whose load the platform ordered. The node's reports about other models do not count. */
  readonly ordered: ReadonlySet<string>
}

export const decidedIn = ({ status, sharing, pinned, ordered }: NodeDecision): Decided => ({
  draining: status === 'draining',
  sharing,
  pinned,
  ordered: new Set(ordered),
})
