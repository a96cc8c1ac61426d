import type { NodeDecision } from '../../../db/repositories/nodes/nodes.ts'
import type { HelloMeta } from '../../../schemas/nodes/link.ts'
import type { NodeSharing } from '../../../schemas/nodes/node.ts'

/** The decisions of operators and the platform about a linked node. */
export interface NodeDecisions {
  readonly draining: boolean
  readonly sharing: NodeSharing
  /** Models that are pinned on the node. */
  readonly pinned: readonly string[]
  /** Models that the node unloads as soon as no request uses them. */
  readonly retiring: readonly string[]
  /** Idle timeout in seconds, by model. */
  readonly idleTimeouts: Readonly<Record<string, number>>
  /** Models that the platform ordered to load. The node's reports about other models don't count. */
  readonly ordered: ReadonlySet<string>
}

export const decisionsOf = (row: NodeDecision): NodeDecisions => ({
  draining: row.status === 'draining',
  sharing: row.sharing,
  pinned: row.pinned,
  retiring: row.retiring,
  idleTimeouts: row.idle_timeouts,
  ordered: new Set(row.ordered),
})

/** Returns the hello fields that inform a node of the decisions about it. */
export const helloOf = ({ draining, sharing, pinned, retiring, idleTimeouts }: NodeDecisions): HelloMeta => ({
  draining,
  sharing,
  pinned: [...pinned],
  retiring: [...retiring],
  idle_timeouts: { ...idleTimeouts },
})
