import type { NodeRow } from '../../../../db/tables/nodes.ts'
import type { NodeSnapshot } from '../../../../domain/placement/node-snapshot.ts'
import type { NodeInventory, NodeView } from '../../../../schemas/node.ts'

/** A node without a report for this long counts as offline. */
const SILENT_MS = 15_000

type Listed = NodeRow & {
  snapshot: Record<string, unknown> | null
  updated_at: Date | null
  ordered: string[]
}

export function presentNode(row: Listed, now: Date): NodeView {
  const isFresh = row.updated_at !== null && now.getTime() - row.updated_at.getTime() < SILENT_MS
  const snapshot = isFresh ? (row.snapshot as NodeSnapshot | null) : null
  return {
    node_id: row.id,
    account_id: row.account_id,
    name: row.name,
    status: row.status === 'removed' ? 'removed' : statusOf(row, isFresh),
    sharing: row.sharing,
    inventory: row.inventory as NodeInventory,
    memory_free_mb: snapshot?.memory_free_mb ?? null,
    gpus: [...(snapshot?.gpus ?? [])],
    load: snapshot?.load ?? null,
    ordered_models: row.ordered,
    models: [...(snapshot?.models ?? [])],
    environments: [...(snapshot?.environments ?? [])],
    joined_at: row.joined_at.toISOString(),
    last_seen_at: row.last_seen_at.toISOString(),
  }
}

const statusOf = (row: Listed, isFresh: boolean) => {
  if (!isFresh) return 'offline'
  return row.status === 'draining' ? 'draining' : 'online'
}
