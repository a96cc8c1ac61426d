import type { ViewedNode } from '../../../../db/repositories/nodes/node-views.ts'
import type { NodeSnapshot } from '../../../../domain/placement/node-snapshot.ts'
import { silentSince } from '../../../../domain/placement/silence.ts'
import type { NodeInventory, NodeView } from '../../../../schemas/nodes/node.ts'

export function presentNode(row: ViewedNode, now: Date): NodeView {
  const isFresh = row.updated_at !== null && row.updated_at > silentSince(now)
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
    processes: [...(snapshot?.processes ?? [])],
    environments: [...(snapshot?.environments ?? [])],
    gate_fault: snapshot?.gate_fault ?? null,
    gpu_fault: snapshot?.gpu_fault ?? null,
    disk_fault: snapshot?.disk_fault ?? null,
    joined_at: row.joined_at.toISOString(),
    last_seen_at: row.last_seen_at.toISOString(),
  }
}

const statusOf = (row: ViewedNode, isFresh: boolean) => {
  if (!isFresh) return 'offline'
  return row.status === 'draining' ? 'draining' : 'online'
}
